#!/bin/sh
# Stands in for cargo: writes down what it was asked and with which server, and fails when what it was
# asked contains $FAKE_CARGO_FAILS, or takes two minutes and says so when that contains $FAKE_CARGO_TAKES_LONG.
echo "$*" >>"$FAKE_CARGO_ASKED"
echo "$LEASE_TEST_POSTGRES_URL" >"$FAKE_CARGO_ASKED.url"
case "$*" in *"$FAKE_CARGO_FAILS"*) exit 3 ;; esac
case "$*" in *"${FAKE_CARGO_TAKES_LONG-nothing}"*) sleep 120 && echo done >>"$FAKE_CARGO_ASKED" ;; esac
# The public API is asked for: rustdoc's JSON of libraries that offer nothing, or of those in $FAKE_RUSTDOC_WRITES alone, in the
# format $FAKE_RUSTDOC_FORMAT.
case "$*" in
*" --lib"*)
    case "$*" in doc*) mkdir -p target/doc ;; esac
    for library in ${FAKE_RUSTDOC_WRITES-lease_core lease_mysql lease_postgres lease_sqlite lease_testkit}; do
        [ ! -d target/doc ] || sed "s/LIBRARY/$library/; s/FORMAT/${FAKE_RUSTDOC_FORMAT-57}/" >"target/doc/$library.json" <<'JSON'
{"root":0,"crate_version":null,"includes_private":false,"paths":{},"external_crates":{},"format_version":FORMAT,
"target":{"triple":"none","target_features":[]},"index":{"0":{"id":0,"crate_id":0,"name":"LIBRARY","span":null,
"visibility":"public","docs":null,"links":{},"attrs":[],"deprecation":null,
"inner":{"module":{"is_crate":true,"items":[],"is_stripped":false}}}}}
JSON
    done
    ;;
esac
# A test program is built: one that says what it is told, and fails when $FAKE_PROGRAM_FAILS is set.
case "$*" in *--no-run*) ;; *) exit 0 ;; esac
folder=$PWD/lease-core
case "$*" in *examples/beside-others/*) folder=$PWD/examples/beside-others && mkdir -p "$folder" ;; esac
cat >"$FAKE_CARGO_ASKED.program" <<'PROGRAM'
#!/bin/sh
echo "test a has been running for over 60 seconds"
echo "told $*"
[ -z "$FAKE_PROGRAM_FAILS" ] || exit 7
PROGRAM
chmod +x "$FAKE_CARGO_ASKED.program"
echo '{"reason":"build-script-executed"}'
echo '{"reason":"compiler-artifact","manifest_path":"'"$folder"'/Cargo.toml","target":{"kind":["lib"],"name":"no"},"profile":{"test":false},"executable":null}'
echo '{"reason":"compiler-artifact","manifest_path":"'"$folder"'/Cargo.toml","target":{"kind":["test"],"name":"fake"},"profile":{"test":true},"executable":"'"$FAKE_CARGO_ASKED"'.program"}'
