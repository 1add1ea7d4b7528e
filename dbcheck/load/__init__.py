"""The load: sessions that commit, and the decision that the server is gone."""
