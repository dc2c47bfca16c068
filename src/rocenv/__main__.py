"""Run `rocenv` as `python -m rocenv`."""

from rocenv.cli import main

if __name__ == "__main__":
    main()
