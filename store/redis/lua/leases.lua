-- What every script below knows of leases. Their time is Redis's own, in microseconds. A lease
-- that was acquired is kept as the lines token, end, holder; one that is attached as token, the
-- session's token, the session's name, holder. Numbers below 2^53 are exact in Lua.

local function now()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000000 + tonumber(t[2])
end

-- acquired returns the lease under name in the hash, if it hasn't ended.
local function acquired(hash, name, at)
  local v = redis.call('HGET', hash, name)
  if not v then return nil end
  local token, ends, holder = string.match(v, '^(%d+)\n(%d+)\n(.*)$')
  if not token or tonumber(ends) <= at then return nil end
  return {token = token, ends = tonumber(ends), holder = holder}
end

-- attached returns the lease under name, if its session is held with the token that it had.
local function attached(hash, sessions, name, at)
  local v = redis.call('HGET', hash, name)
  if not v then return nil end
  local token, stoken, sname, holder = string.match(v, '^(%d+)\n(%d+)\n([^\n]*)\n(.*)$')
  if not token then return nil end
  local s = acquired(sessions, sname, at)
  if not s or s.token ~= stoken then return nil end
  return {token = token, holder = holder, session = sname, stoken = stoken, ends = s.ends}
end

local function current(sessions, hash, name, at)
  return acquired(sessions, name, at) or attached(hash, sessions, name, at)
end

-- fresh returns a token that is greater than all before, also where Redis has lost the last one.
local function fresh(state, at)
  local last = tonumber(redis.call('HGET', state, 'token') or '0')
  local token = string.format('%.0f', math.max(last + 1, at))
  redis.call('HSET', state, 'token', token)
  return token
end

-- unknown says that the caller's epoch isn't the present one.
local function unknown(state, epoch) return redis.call('HGET', state, 'epoch') ~= epoch end

-- waits says that leases were lost, and that their holders may still believe in them.
local function waits(state, at) return at < tonumber(redis.call('HGET', state, 'grace') or '0') end
