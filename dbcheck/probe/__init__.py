"""What commits and writes do to the drives, measured without a cut: pure logic."""
