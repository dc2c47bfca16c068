"""How the tables of the dossiers are found again in `profiles/`."""
