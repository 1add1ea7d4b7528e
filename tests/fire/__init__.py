"""The witness under fire: whole cycles, each with one fault, and an oracle apart."""
