"""`python -m contextinfinity`, the same as the command `cix`."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from contextinfinity.cli.main import run

    run()


if __name__ == "__main__":
    main()
