"""Writers and verifiers of the public release directory."""
