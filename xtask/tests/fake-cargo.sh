#!/bin/sh
# Stands in for cargo: writes down what it was asked, and fails when that contains $FAKE_CARGO_FAILS.
echo "$*" >>"$FAKE_CARGO_ASKED"
case "$*" in *"$FAKE_CARGO_FAILS"*) exit 3 ;; esac
