-- Lists the leases that were acquired, and removes those that have ended.
-- KEYS: state, leases. ARGV: prefix.
local at = now()
local all = redis.call('HGETALL', KEYS[2])
local out = {}
for i = 1, #all, 2 do
  local name = all[i]
  local l = acquired(KEYS[2], name, at)
  if not l then
    redis.call('HDEL', KEYS[2], name)
  elseif string.sub(name, 1, #ARGV[1]) == ARGV[1] then
    out[#out + 1] = name
    out[#out + 1] = l.holder
    out[#out + 1] = l.token
    out[#out + 1] = string.format('%.0f', l.ends - at)
  end
end
return out
