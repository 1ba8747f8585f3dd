-- Gives a lease back. What is attached to it has ended with it.
-- KEYS: state, leases, attached. ARGV: name, holder, token.
local at = now()
for i = 2, 3 do
  local v = redis.call('HGET', KEYS[i], ARGV[1])
  if v and string.match(v, '^(%d+)\n') == ARGV[3] and string.sub(v, -#ARGV[2] - 1) == '\n' .. ARGV[2] then
    redis.call('HDEL', KEYS[i], ARGV[1])
  end
end
return {'ok'}
