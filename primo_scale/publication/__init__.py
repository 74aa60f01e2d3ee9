"""Writers and checkers of the public release directory."""
