"""The measured claims, and the peers they are measured against. `README.md` in this folder says what each case is."""
