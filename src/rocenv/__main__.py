"""`python -m rocenv`, the same as the `rocenv` command."""

from rocenv.cli import main

if __name__ == "__main__":
    main()
