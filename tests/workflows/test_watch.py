"""`datalens watch`: what it shows, and whom it refuses."""

import http.client
import json
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datalens.synthesizers.session import Stopped
from datalens.workflows.progress import STOPPED, marked
from datalens.workflows.watch.server import Server, _Handler, serving
from datalens.workflows.watch.state import Follower

LINES = [
    {"stage": "warm-start", "done": 3, "total": 3, "epsilon": 1.25},
    {"stage": "votes", "done": 1, "total": 9, "epsilon": 1.5},
    {"stage": "votes", "done": 2, "total": 9},
]
CONFIG = '[settings]\nepsilon = 3.0\n[data]\nname = "digits"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    (run / "internal").mkdir(parents=True)
    (run / "config.toml").write_text('method = "datalens"\n' + CONFIG)
    (run / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    (run / "internal" / "session.json").write_text('{"secret": "abcdef"}')
    (run / "samples.png").write_bytes(b"a picture")
    return run


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    with Server(folder) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


class Answer:
    def __init__(self, server: Server, path: str, *, method: str = "GET", **headers: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
        named = {"Host": f"127.0.0.1:{server.server_port}"} | headers
        connection.putrequest(method, path, skip_host=True)
        for name, value in named.items():
            if value:
                connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        self.code, self.body = answer.status, answer.read()
        self.headers = answer.headers
        connection.close()


def test_it_shows_the_run(server: Server) -> None:
    token = f"/{server.token}"
    assert server.url.startswith("http://127.0.0.1:") and server.url.endswith(f"{token}/")
    assert server.server_address[0] == "127.0.0.1" and len(server.token) >= 32
    page = Answer(server, f"{token}/")
    assert page.code == 200 and b"Run under way" in page.body
    assert page.headers["Cache-Control"] == "no-store"
    state = json.loads(Answer(server, f"{token}/state.json").body)
    assert (state["epsilon"], state["budget"], state["finished"]) == (1.5, 3.0, False)
    assert (state["method"], state["data"]) == ("datalens", "digits")
    assert state["stages"] == [
        {"stage": "warm-start", "done": 3, "total": 3},
        {"stage": "votes", "done": 2, "total": 9},
    ]
    assert Answer(server, f"{token}/samples.png?1").body == b"a picture"


def test_the_folder_one_is_in_has_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with Server(Path()) as server:
        assert "<title>run:" in server.page
    assert Follower(Path()).state()["run"] == "run"


@pytest.mark.parametrize("path", ["/", "", "/state.json", "/x/state.json", "/%00/", "//", "/../"])
def test_without_the_token_there_is_nothing(server: Server, path: str) -> None:
    assert Answer(server, path or "/").code == 403
    nearly = server.token[:-1] + ("a" if server.token[-1] != "a" else "b")
    for wrong in (nearly, server.token[:-1], server.token.upper(), server.token + "a"):
        answer = Answer(server, f"/{wrong}{path}")
        assert answer.code == 403 and b"epsilon" not in answer.body


@pytest.mark.parametrize(
    "name",
    [
        "internal/session.json",
        "../run/internal/session.json",
        "..%2frun/internal/session.json",
        "./log.jsonl",
        "log.jsonl",
        "certificate.json",
        "/etc/hostname",
        "state.json/",
        "samples.png/../internal/session.json",
        "x" * 5000,
    ],
)
def test_no_path_leads_to_a_file(server: Server, name: str) -> None:
    answer = Answer(server, f"/{server.token}/{name}")
    assert answer.code == 404 and b"abcdef" not in answer.body


@pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1", "evil.example:{}", ""])
def test_another_host_is_refused(server: Server, host: str) -> None:
    """As a browser names it that was led here by a name of somebody else's."""
    answer = Answer(server, f"/{server.token}/", Host=host.format(server.server_port))
    assert answer.code == 403 and b"under way" not in answer.body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "GETX"])
def test_it_can_only_be_read(server: Server, folder: Path, method: str) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert Answer(server, f"/{server.token}/state.json", method=method).code in (405, 501)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_tokens_differ(folder: Path) -> None:
    with Server(folder) as one, Server(folder) as other:
        assert one.token != other.token


def test_nothing_inside_is_opened(folder: Path) -> None:
    """Everything a follower opens, as the interpreter sees it."""
    opened: list[str] = []
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
    follower = Follower(folder)
    follower.state()
    follower.picture()
    ours = {Path(name).name for name in opened if str(folder) in name}
    assert ours == {"config.toml", "log.jsonl", "samples.png"}
    assert not any("internal" in name for name in opened)


def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"stage": "secret", "done": 1, "total": 2, "epsilon": 9}\n')
    for name in ("log.jsonl", "samples.png", "config.toml"):
        (folder / name).unlink()
        (folder / name).symlink_to(tmp_path / "secret")
    follower = Follower(folder)
    assert follower.picture() is None
    state = follower.state()
    assert state["stages"] == [] and state["picture"] is None and state["epsilon"] == 0


def log_of(folder: Path, stage: str, done: int, total: int) -> None:
    with (folder / "log.jsonl").open("a") as log:
        log.write(json.dumps({"stage": stage, "done": done, "total": total}) + "\n")


def test_time_left_is_at_the_pace_seen(folder: Path) -> None:
    now = 100.0
    follower = Follower(folder, clock=lambda: now)
    assert follower.state()["seconds_left"] is None
    log_of(folder, "votes", 5, 9)
    now = 115.0  # three steps in 15 seconds, four to go
    assert follower.state()["seconds_left"] == pytest.approx(20.0)
    now = 117.0
    assert follower.state()["seconds_left"] == pytest.approx(18.0)
    now = 900.0  # it stands still: the step under way should be over, and no more is known
    assert follower.state()["seconds_left"] == pytest.approx(15.0)


def test_slow_first_steps_do_not_count_for_all_to_come(folder: Path) -> None:
    """A default run: moments and clusters, then a hundred quick steps, in one stage."""
    now = 0.0
    follower = Follower(folder, clock=lambda: now)
    for at, done in ((0.0, 0), (30.0, 1), (80.0, 2)):
        now = at
        log_of(folder, "model", done, 102)
        assert follower.state()["seconds_left"] is None  # and not an hour
    for done in range(12, 102, 10):  # looked at every two seconds
        now += 2.0
        log_of(folder, "model", done, 102)
        assert follower.state()["seconds_left"] == pytest.approx((102 - done) * 0.2)


def test_a_run_that_goes_faster_is_soon_seen_to(folder: Path) -> None:
    now = 0.0
    follower = Follower(folder, clock=lambda: now)
    for done in range(3, 200):
        now += 4.0 if done < 100 else 1.0
        log_of(folder, "later", done, 200)
        left = follower.state()["seconds_left"]
    assert left == pytest.approx(1.0)


def test_how_a_run_stands(folder: Path) -> None:
    clock = (folder / "log.jsonl").stat().st_mtime
    follower = Follower(folder, wall=lambda: clock)
    state = follower.state()
    assert (state["standing"], state["silent"]) == ("under way", False)
    clock += 700  # killed, perhaps: it could not leave a mark
    state = follower.state()
    assert (state["standing"], state["silent"]) == ("under way", True)
    (folder / STOPPED).touch()
    state = follower.state()
    assert (state["standing"], state["silent"], state["finished"]) == ("stopped", False, False)
    assert state["seconds_left"] is None
    told = shlex.split(state["go_on"])
    assert told == ["datalens", "fit", "DATA", "--out", str(folder), "--resume"]
    (folder / "certificate.json").touch()
    state = follower.state()
    assert (state["standing"], state["finished"]) == ("finished", True)


def test_what_ends_a_run_early_leaves_a_mark(tmp_path: Path) -> None:
    for error in (KeyboardInterrupt, Stopped, MemoryError):
        with pytest.raises(error), marked(tmp_path):
            assert not (tmp_path / STOPPED).exists()  # it goes on
            raise error
        assert (tmp_path / STOPPED).read_bytes() == b""
    with marked(tmp_path):
        pass
    assert not (tmp_path / STOPPED).exists()


def test_a_folder_whose_name_is_no_text_has_a_page(folder: Path) -> None:
    odd = folder.rename(folder.parent / "run-\udcff")
    with serving(odd) as url:
        path = url.removeprefix("http://127.0.0.1:")
        port, _, rest = path.partition("/")
        connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
        connection.request("GET", f"/{rest}")
        assert "run-?" in connection.getresponse().read().decode()


@pytest.mark.parametrize("mark", [STOPPED, "certificate.json"])
def test_a_page_that_is_open_hears_the_end(
    folder: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `fit --dashboard` ends: what it last told was that the run is under way."""
    monkeypatch.setattr("datalens.workflows.watch.server.LONGEST_GOODBYE", 600)
    with Server(folder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ask = f"/{server.token}/state.json"
        assert json.loads(Answer(server, ask).body)["standing"] == "under way"
        (folder / mark).touch()
        waiting = threading.Thread(target=server.linger)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        assert json.loads(Answer(server, ask).body)["standing"] != "under way"
        waiting.join(60)
        assert not waiting.is_alive()
        server.shutdown()


def test_a_page_is_known_to_be_there_before_it_has_its_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends just then waits for it."""
    asked: list[float] = []
    answer = _Handler._answer

    def noted(handler: _Handler, *arguments: Any) -> None:
        asked.append(server.asked)
        answer(handler, *arguments)

    monkeypatch.setattr(_Handler, "_answer", noted)
    Answer(server, f"/{server.token}/state.json")
    assert time.monotonic() - asked[0] < 60


def test_nobody_is_waited_for_who_is_not_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datalens.workflows.watch.server.LONGEST_GOODBYE", 120)
    began = time.monotonic()
    with serving(folder, to_the_end=True):
        pass
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    "line", ["{", "[]", "null", '{"stage": 1}', '{"stage": "a", "done": "x", "total": 2}', "\0\xff"]
)
def test_a_broken_log_is_read_as_far_as_it_goes(folder: Path, line: str) -> None:
    with (folder / "log.jsonl").open("a") as log:
        log.write(line)
    assert Follower(folder).state()["epsilon"] == 1.5
    (folder / "log.jsonl").write_text('{"stage": "a", "done": 1, "total": 2, "epsilon": NaN}\n')
    (folder / "config.toml").write_text("method = 3\nsettings = 4\ndata = 5\n")
    state = Follower(folder).state()
    assert state["epsilon"] == 0 and state["budget"] is None
    json.dumps(state, allow_nan=False)


def test_before_there_is_a_run(tmp_path: Path) -> None:
    """`fit --dashboard` serves it before its folder is made."""
    with serving(tmp_path / "none") as url:
        assert url.startswith("http://127.0.0.1:")
        state = Follower(tmp_path / "none").state()
    assert state["stages"] == [] and not state["finished"]


def test_the_address_does_not_wait_for_what_takes_long_to_load(folder: Path) -> None:
    """Nothing that it rests on is loaded before it is printed."""
    script = f"""
import pathlib, sys
from datalens.workflows.watch.server import serving
with serving(pathlib.Path({str(folder)!r})) as url:
    print(url, *(name for name in ("torch", "numpy", "jinja2") if name in sys.modules))
"""
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert told.stdout.startswith("http://127.0.0.1:") and len(told.stdout.split()) == 1


def test_the_command_ends_well_with_ctrl_c(folder: Path) -> None:
    words = [sys.executable, "-m", "datalens", "watch", str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.readline()
    url = next(word for word in said.split() if word.startswith("http://127.0.0.1:"))
    port, token = url.removeprefix("http://127.0.0.1:").rstrip("/").split("/")
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
    connection.request("GET", f"/{token}/state.json")
    assert json.load(connection.getresponse())["run"] == "run"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and err == ""


def test_what_is_no_folder_is_refused(run: Any, tmp_path: Path) -> None:
    refused = run("watch", "nowhere")
    assert refused.code == 2 and "no run folder" in refused.err
    refused = run("watch", tmp_path, "--port", 99999)
    assert refused.code == 2 and "Port 99999" in refused.err
