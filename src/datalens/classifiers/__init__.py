"""Private training of classifiers (DP-SGD with TopAgg), and the classifiers that judge images."""
