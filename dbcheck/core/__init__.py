"""The judgement: pure values in, values out; no driver, clock, socket or log."""
