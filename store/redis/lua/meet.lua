-- Compares what a client knows with what Redis has, and raises the epoch where Redis has lost
-- something, or where nobody can tell.
-- KEYS: state, runs, changes. ARGV: the client's epoch ('0' is none), Put number, token, Redis's
-- run as the client met it last ('' is never) and now, the longest lease that the client took
-- (microseconds), how many changes are kept.
local s = redis.call('HMGET', KEYS[1], 'epoch', 'put', 'token', 'run')
local epoch, put, token, run = tonumber(s[1] or '0'), tonumber(s[2] or '0'), tonumber(s[3] or '0'), s[4] or ''
local known, kput, ktoken = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local present = ARGV[5]

-- lost says whether something that the client knows of is no longer there.
local function lost()
  if epoch == 0 or known > epoch then return true end
  if ktoken > token then return true end
  if known < epoch then
    -- A newcomer can't tell what was there before Redis was restarted.
    return known == 0 and run ~= present
  end
  if kput > put then return true end
  if ARGV[4] == run then return false end
  -- Others met Redis after a restart: what had it kept of the run that the client knows?
  local kept = redis.call('HGET', KEYS[2], ARGV[4])
  return not kept or tonumber(kept) < kput
end

if lost() then
  local t = redis.call('TIME')
  -- Seconds since 2020 grow also where nobody knows a former epoch.
  epoch = math.max(epoch + 1, known + 1, tonumber(t[1]) - 1577836800)
  token = math.max(token, ktoken)
  local text = string.format('%.0f', epoch)
  local grace = string.format('%.0f', tonumber(t[1]) * 1000000 + tonumber(t[2]) + tonumber(ARGV[6]))
  redis.call('HSET', KEYS[1], 'epoch', text, 'put', string.format('%.0f', put), 'token', string.format('%.0f', token),
    'run', present, 'grace', grace)
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[7], text .. '-0', 'by', '', 'keys', '')
elseif run ~= present then
  redis.call('HSET', KEYS[2], run, string.format('%.0f', put))
  redis.call('HSET', KEYS[1], 'run', present)
end
return {string.format('%.0f', epoch), string.format('%.0f', put)}
