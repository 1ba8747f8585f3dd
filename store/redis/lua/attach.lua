-- Takes a lease that lasts with a session.
-- KEYS: state, leases, attached. ARGV: epoch, name, the session's name, holder and token.
if unknown(KEYS[1], ARGV[1]) then return {'epoch'} end
local at = now()
local session = acquired(KEYS[2], ARGV[3], at)
if not session or session.token ~= ARGV[5] or session.holder ~= ARGV[4] then return {'fenced'} end
local old = current(KEYS[2], KEYS[3], ARGV[2], at)
if old and (old.session ~= ARGV[3] or old.stoken ~= ARGV[5]) then return {'held', old.holder} end
local remaining = string.format('%.0f', session.ends - at)
if old then return {'ok', old.token, remaining} end
if waits(KEYS[1], at) then return {'waits'} end
local token = fresh(KEYS[1], at)
redis.call('HSET', KEYS[3], ARGV[2], token .. '\n' .. ARGV[5] .. '\n' .. ARGV[3] .. '\n' .. ARGV[4])
redis.call('HDEL', KEYS[2], ARGV[2])
-- What lost sessions left goes a little at a time, so that nobody waits for all of it.
for _, name in ipairs(redis.call('HRANDFIELD', KEYS[3], 8)) do
  if not attached(KEYS[3], KEYS[2], name, at) then redis.call('HDEL', KEYS[3], name) end
end
return {'ok', token, remaining}
