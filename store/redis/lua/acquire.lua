-- Takes or renews a lease.
-- KEYS: state, leases, attached. ARGV: epoch, name, holder, time to live in microseconds.
if unknown(KEYS[1], ARGV[1]) then return {'epoch'} end
local at = now()
local old = current(KEYS[2], KEYS[3], ARGV[2], at)
if old and (old.holder ~= ARGV[3] or old.session) then
  return {'held', old.holder, string.format('%.0f', old.ends - at)}
end
if not old and waits(KEYS[1], at) then return {'waits'} end
local token = old and old.token or fresh(KEYS[1], at)
redis.call('HSET', KEYS[2], ARGV[2], token .. '\n' .. string.format('%.0f', at + tonumber(ARGV[4])) .. '\n' .. ARGV[3])
if not old then redis.call('HDEL', KEYS[3], ARGV[2]) end
return {'ok', token}
