#!/bin/sh
# Stands in for cargo: writes down what it was asked and with which server, and fails when what it was
# asked contains $FAKE_CARGO_FAILS.
echo "$*" >>"$FAKE_CARGO_ASKED"
echo "$LEASE_TEST_POSTGRES_URL" >"$FAKE_CARGO_ASKED.url"
case "$*" in *"$FAKE_CARGO_FAILS"*) exit 3 ;; esac
