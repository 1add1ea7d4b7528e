"""Defects of released servers, shown with the server alone: no lab, no drive."""
