# shellcheck shell=bash disable=SC2154 # read by ./openstack, which sets what is used here
# The first start of a version does this once, and all later ones use it: the databases'
# schemas, the services' users, the content. The migrations are most of the time; they go
# in two lanes, for two processors.

prepare() {
  local identity others failed=
  say "preparing the databases (one to two minutes; later starts take what this one makes); log: $DIR/log/prepare-*.log"
  keys
  mkdir -p "$DIR/mysql"
  "${CLEAN[@]}" mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$DIR/mysql" --auth-root-authentication-method=normal --skip-test-db >"$DIR/log/prepare-mysql.log" 2>&1 ||
    { tail -n 15 "$DIR/log/prepare-mysql.log" >&2; die "mariadb-install-db failed: $DIR/log/prepare-mysql.log"; }
  spawn mariadbd "${DATABASE[@]}"
  await "the database" sql -e 'select 1'
  printf 'create database if not exists %s character set utf8;\n' "${DATABASES[@]}" | sql
  (lane_identity) >"$DIR/log/prepare-identity.log" 2>&1 8>&- 9>&- &
  identity=$!
  (lane_others) >"$DIR/log/prepare-others.log" 2>&1 8>&- 9>&- &
  others=$!
  wait "$others" || failed=others
  wait "$identity" || failed=identity
  if [ -n "$failed" ]; then
    tail -n 15 "$DIR/log/prepare-$failed.log" >&2
    finish KILL
    die "the preparation failed: $DIR/log/prepare-$failed.log"
  fi
  await keystone answers "$P_KEYSTONE"
  seed identity
  start_services
}

keys() {
  local k
  mkdir -p "$DIR/keys/fernet" "$DIR/keys/credential"
  chmod 700 "$DIR/keys"/*
  for k in fernet/0 fernet/1 credential/0 credential/1; do head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n' >"$DIR/keys/$k"; done
}

commands() { "${CLEAN[@]}" "$@" /usr/bin/python3 "$HERE/launch.py" commands "$DIR"; }

# Keystone is up when the others are done, and Nova's schemas take as long as theirs.
lane_identity() {
  local k="keystone-manage keystone.cmd.manage --config-file $DIR/etc/keystone.conf" n="nova-manage nova.cmd.manage --config-file $DIR/etc/nova.conf" u
  u=$(url identity)
  commands <<TXT
$k db_sync
$k bootstrap --bootstrap-password $PASSWORD --bootstrap-region-id RegionOne --bootstrap-admin-url $u --bootstrap-public-url $u --bootstrap-internal-url $u
TXT
  start_keystone
  commands <<TXT
$n api_db sync
$n cell_v2 map_cell0 --database_connection "$(database nova_cell0)"
$n cell_v2 create_cell --name cell1
$n db sync
TXT
}

lane_others() {
  commands <<<"neutron-db-manage neutron.db.migration.cli --config-file $DIR/etc/neutron.conf upgrade heads"
  commands <<<"cinder-manage cinder.cmd.manage --config-file $DIR/etc/cinder.conf db sync"
  commands <<<"glance-manage glance.cmd.manage --config-file $DIR/etc/glance-api.conf db_sync"
  commands <<<"heat-manage heat.cmd.manage --config-file $DIR/etc/heat.conf db_sync"
  commands OS_PLACEMENT_CONFIG_DIR="$DIR/etc/placement" <<<"placement-manage placement.cmd.manage --config-file $DIR/etc/placement/placement.conf db sync"
}

seed() { # seed identity|content
  local variables=() kind
  for kind in identity image placement compute network orchestration volumev3; do variables+=("JIBE_URL_${kind^^}=$(url "$kind")"); done
  "${CLEAN[@]}" JIBE_PASSWORD="$PASSWORD" JIBE_SEED="$DIR/seed.json" "${variables[@]}" /usr/bin/python3 "$HERE/seed.py" "$1" >"$DIR/log/seed-$1.log" 2>&1 8>&- 9>&- ||
    { tail -n 15 "$DIR/log/seed-$1.log" >&2; finish KILL; die "$1 could not be made: $DIR/log/seed-$1.log"; }
}

# fill makes the content, and has Nova use its host.
fill() {
  seed content
  commands <<<"nova-manage nova.cmd.manage --config-file $DIR/etc/nova.conf cell_v2 discover_hosts" >"$DIR/log/discover.log" 2>&1
  [ "$(sql -e "select count(*) from nova_api.host_mappings where host = '$COMPUTE_HOST'")" = 1 ] || die "Nova does not know its host: $DIR/log/discover.log"
}

# keep puts what was prepared into the cache. The database's files are copied while it
# stands still, which is what a crash would leave; one that recovers from it and ends in
# order makes them what every later start finds.
keep() {
  local tmp pid data socket
  mkdir -p "$(dirname "$PREPARED")"
  rm -rf "$(dirname "$PREPARED")"/.prepared-* # of one that was killed: we have the lock
  tmp=$(mktemp -d "$(dirname "$PREPARED")/.prepared-XXXXXX")
  data=$tmp/mysql
  socket=$DIR/run/copy.sock
  pid=$(ours mariadbd)
  sql -e 'flush engine logs'
  kill -s STOP "$pid"
  cp -a "$DIR/mysql" "$data" || { kill -s CONT "$pid"; die "the database could not be copied to $tmp"; }
  kill -s CONT "$pid"
  rm -f "$data/pid"
  start_database "$data" "$socket"
  "${DATABASE[@]}" >"$DIR/log/keep.log" 2>&1 </dev/null 8>&- 9>&- &
  pid=$!
  await "the copy of the database" "${CLEAN[@]}" mariadb-admin --no-defaults -uroot -S "$socket" ping
  kill -s TERM "$pid"
  wait "$pid" || die "the copy of the database did not end in order: $DIR/log/keep.log"
  cp -a "$DIR/keys" "$DIR/images" "$DIR/seed.json" "$tmp/"
  mv "$tmp" "$PREPARED"
}
