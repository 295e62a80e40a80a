"""`datalens audit`: attacks on our own mechanism, and what they disprove."""
