-- Writes all records or none.
-- KEYS: state, index, counters, changes, leases, attached, senders, then the records that aren't
-- completed.
-- ARGV: epoch, least Put number, which Put of whom, where to look for a former try ('' is none), how
-- many changes are kept, prefix of records' keys, the lease's name ('' is none), holder and token, the
-- sender and its round, then for each record its key, the version that it must have ('' is none) and
-- its new content ('' removes).

-- The version of a record, 8 bytes of which the first count most.
local function decoded(bytes)
  local n = 0
  for i = 1, 8 do n = n * 256 + string.byte(bytes, i) end
  return n
end

local function encoded(n)
  local bytes = {}
  for i = 8, 1, -1 do
    bytes[i] = string.char(n % 256)
    n = math.floor(n / 256)
  end
  return table.concat(bytes)
end

local state = redis.call('HMGET', KEYS[1], 'epoch', 'put', 'removed')
if state[1] ~= ARGV[1] or tonumber(state[2] or '0') < tonumber(ARGV[2]) then return {'epoch'} end

-- What was on its way in a connection that its sender has given up comes too late: the sender has
-- tried again, and would take this for another Put.
if tonumber(redis.call('HGET', KEYS[7], ARGV[10]) or '0') > tonumber(ARGV[11]) then return {'late'} end
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[7], ARGV[10], ARGV[11])
  redis.call('PEXPIRE', KEYS[7], 86400000)
  local since = redis.call('XRANGE', KEYS[4], ARGV[4], '+')
  for _, entry in ipairs(since) do
    if entry[2][2] == ARGV[3] then return {'put', string.match(entry[1], '%-(%d+)$'), entry[2][4]} end
  end
  -- Not found and not all there: it was put, or it wasn't.
  local first = tonumber(string.match(ARGV[4], '%-(%d+)$'))
  if tonumber(state[2]) >= first and (#since == 0 or tonumber(string.match(since[1][1], '%-(%d+)$')) > first) then
    return {'unknown'}
  end
end

if ARGV[7] ~= '' then
  local l = current(KEYS[5], KEYS[6], ARGV[7], now())
  if not l or l.token ~= ARGV[9] or l.holder ~= ARGV[8] then return {'fenced'} end
end

for i = 12, #ARGV, 3 do
  local key = ARGV[i]
  if string.sub(key, -1) ~= '/' then
    local have = ''
    if redis.call('EXISTS', ARGV[6] .. key) == 1 then have = redis.call('GETRANGE', ARGV[6] .. key, 0, 7) end
    if have ~= ARGV[i + 1] then return {'conflict', key, have} end
  end
end

-- The first write is one that Redis refuses where it is out of memory: then nothing was written.
local put = string.format('%.0f', redis.call('HINCRBY', KEYS[1], 'put', 1))
local told = {}
-- The greatest version that a record had when it was removed: what is made begins above it, so that
-- no key has a version twice. One number for all keys, so that nothing is kept of each that is gone.
local removed = tonumber(state[3] or '0')
local highest = removed
for i = 12, #ARGV, 3 do
  local key, have, content = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if have ~= '' and content == '' then
    highest = math.max(highest, decoded(have) + 1)
  elseif have == '' and content ~= '' and removed > 0 and string.sub(key, -1) ~= '/' then
    content = encoded(removed + 1) .. string.sub(content, 9)
  end
  if string.sub(key, -1) == '/' then
    -- The epoch goes first, so that no number comes again where the counter went back.
    key = key .. string.format('%010.0f%010.0f', tonumber(ARGV[1]), redis.call('HINCRBY', KEYS[3], key, 1))
  end
  if content == '' then
    redis.call('DEL', ARGV[6] .. key)
    redis.call('ZREM', KEYS[2], key)
    told[#told + 1] = string.rep('\0', 8) .. key
  else
    redis.call('SET', ARGV[6] .. key, content)
    redis.call('ZADD', KEYS[2], 0, key)
    told[#told + 1] = string.sub(content, 1, 8) .. key
  end
end
if highest > removed then redis.call('HSET', KEYS[1], 'removed', string.format('%.0f', highest)) end
local changes = table.concat(told, '\0')
redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[5], ARGV[1] .. '-' .. put, 'by', ARGV[3], 'keys', changes)
return {'put', put, changes}
