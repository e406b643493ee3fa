#!/bin/sh
# Adds up the orders of $SHOP/orders.csv (number,amount) into $SHOP/reports/DAY.txt. Runs under `lease run --slot`: see crontab.
set -eu

: "${SHOP:?the folder of the shop}"
# By the instant, not by the clock: a rerun after midnight makes the report of the same day.
day=${LEASE_SLOT:?run it under: lease run --slot TIME nightly-report -- nightly-report.sh}
day=${day%%T*}

mkdir -p "$SHOP/reports"
report=$SHOP/reports/$day.txt

# Whole or not at all, so that running it once more does no harm: what was cut short has left a file of another name.
awk -F, '{ sum += $2 } END { printf "%d orders, %.2f in all\n", NR, sum }' "$SHOP/orders.csv" > "$report.$LEASE_TERM"
mv "$report.$LEASE_TERM" "$report"

echo "$day: reported under term $LEASE_TERM, rerun $LEASE_RERUN" >> "$SHOP/reports/log"
