#!/bin/sh
# Stands in for cargo: writes down what it was asked and with which server, and fails when what it was
# asked contains $FAKE_CARGO_FAILS, or takes two minutes and says so when that contains $FAKE_CARGO_TAKES_LONG.
echo "$*" >>"$FAKE_CARGO_ASKED"
echo "$LEASE_TEST_POSTGRES_URL" >"$FAKE_CARGO_ASKED.url"
case "$*" in *"$FAKE_CARGO_FAILS"*) exit 3 ;; esac
case "$*" in *"${FAKE_CARGO_TAKES_LONG-nothing}"*) sleep 120 && echo done >>"$FAKE_CARGO_ASKED" ;; esac
