//! The scripts that clients load: the digests of their texts, and planted bugs in them.

use std::cell::RefCell;
use std::sync::Arc;

use foldhash::HashMap;
use quorumlock_redis::simulation::{ScriptKind, kind_of};

use super::bug::Bug;

/// A script that a client has sent.
#[derive(Debug)]
pub struct Script {
    /// Unique among the scripts of a thread.
    pub id: u64,
    pub kind: ScriptKind,
    pub text: Arc<str>,
    pub digest: String,
    /// The incarnation to which the script is bound.
    pub stamp: Option<String>,
}

/// The scripts that one thread has met: a client loads the same texts at each connection.
#[derive(Default)]
struct Known {
    by_text: HashMap<Arc<str>, Arc<Script>>,
    by_digest: HashMap<String, Arc<Script>>,
    next: u64,
}

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// The number of scripts that a thread remembers at the beginning of a run.
const MAX_KNOWN: usize = 2_000;

impl Script {
    /// The script with this text.
    ///
    /// # Panics
    /// If the library has no such script.
    pub fn of(text: &str) -> Arc<Self> {
        KNOWN.with_borrow_mut(|known| match known.by_text.get(text) {
            Some(script) => script.clone(),
            None => known.add(text),
        })
    }

    pub fn by_digest(digest: &str) -> Option<Arc<Self>> {
        KNOWN.with_borrow(|known| known.by_digest.get(digest).cloned())
    }

    /// Forgets the scripts of former runs, if there are many. Returns whether it did.
    pub fn forget_former() -> bool {
        KNOWN.with_borrow_mut(|known| {
            let many = known.by_text.len() > MAX_KNOWN;
            if many {
                known.by_text.clear();
                known.by_digest.clear();
            }
            many
        })
    }

    /// The text that a server with the planted bug runs.
    pub fn planted(&self, bug: Option<Bug>) -> String {
        let mut text = self.text.to_string();
        if self.kind == ScriptKind::Barrier {
            // Only the marks that exist: the others add nothing, and there are 16,384 of them.
            patch(&mut text, "for i = 2, #KEYS do", "for _, i in ipairs(EXISTING) do");
        }
        for (from, to) in bug.into_iter().flat_map(|bug| self.patches(bug)) {
            patch(&mut text, from, to);
        }
        text
    }

    fn patches(&self, bug: Bug) -> Vec<(&'static str, &'static str)> {
        let mut patches = self.admission_patches(bug);
        patches.extend(self.lock_patches(bug));
        patches.extend(self.handoff_patches(bug));
        patches
    }

    fn admission_patches(&self, bug: Bug) -> Vec<(&'static str, &'static str)> {
        match (bug, self.kind) {
            (Bug::RecordAtConnect, _) if self.stamp.is_some() => {
                vec![("if redis.call('hget', RECORD, 'stamp') ~= STAMP then", "if false then")]
            }
            (Bug::CopiesNoMarks, ScriptKind::Barrier) => vec![("return marks", "return {}")],
            (Bug::RevokesNothing, ScriptKind::Revoke) => {
                vec![("redis.call('hdel', KEYS[1], 'stamp')", "0")]
            }
            (Bug::NoBarrier, ScriptKind::Barrier) => {
                vec![("redis.call('hset', KEYS[1], 'stamp', ARGV[1])", "local _ = 0")]
            }
            _ => Vec::new(),
        }
    }

    fn handoff_patches(&self, bug: Bug) -> Vec<(&'static str, &'static str)> {
        use ScriptKind::{Acquire, Dequeue, ForceRelease, Release};
        let notifies = matches!(self.kind, Release | ForceRelease | Dequeue);
        // In strict order an acquisition does so, too.
        let serves = notifies || self.text.contains("-- Strict order");
        match (bug, self.kind) {
            (Bug::HandsWhatIsHeld, Release) => vec![
                (
                    "= free and notify_next(KEYS[1], KEYS[3], KEYS[2], KEYS[4], ARGV[1]) or 0",
                    "= notify_next(KEYS[1], KEYS[3], KEYS[2], KEYS[4], ARGV[1])",
                ),
                ("  if put(name, nonce", "  redis.call('del', name)\n  if put(name, nonce"),
            ],
            (Bug::HandsToSilent, _) if serves => {
                vec![("    elseif age >= STALE then", "    elseif false then")]
            }
            (Bug::HandsToOtherKinds, _) if serves => {
                vec![(
                    "    elseif nonce and hands_off and LAYOUT[kind]",
                    "    elseif nonce and hands_off",
                )]
            }
            (Bug::DropsOwnHandoff, Acquire) => vec![(
                "    if nonce and held(name, nonce) then",
                "    if nonce and held(name, nonce) then\n      drop(name, nonce)\n    elseif false then",
            )],
            (Bug::ForgetsOwnHandoff, Acquire) => {
                vec![("    if nonce and held(name, nonce) then", "    if false then")]
            }
            (Bug::YieldsToEqual, Acquire) if serves => vec![(
                "    return is_caller(member) or score - score % STEP == since - since % STEP",
                "    return is_caller(member)",
            )],
            (Bug::UnheardSlot, _) if notifies => vec![(
                "'quorumlock:' .. kind .. ':' .. name or name",
                "'quorumlock:' .. kind .. ':' .. name or kind == 'permit' and name .. 'x' or name",
            )],
            (Bug::HandsOldToken, _) if notifies => vec![
                (
                    "  local accepted = token == '0'",
                    "  local old = token == '0' and token or string.format('%.0f', mark_of(mark_key))\n\
                     \x20 local accepted = token == '0'",
                ),
                ("nonce .. ' ' .. token .. ' '", "nonce .. ' ' .. old .. ' '"),
            ],
            _ => Vec::new(),
        }
    }

    fn lock_patches(&self, bug: Bug) -> Vec<(&'static str, &'static str)> {
        use ScriptKind::{Acquire, DeleteIfOurs, Release, Renew};
        let redlock = self.text.contains("-- Redlock's layout");
        let read_write = self.text.contains("-- The layout of read-write locks");
        match (bug, self.kind) {
            (Bug::ReleasesAnybodys, Release) if redlock => vec![(
                "  if who == nonce then\n    redis.call('del'",
                "  if who then\n    redis.call('del'",
            )],
            (Bug::ReleasesAnybodys, Release) if read_write => vec![(
                "  local was = redis.call('zrem', name, nonce, twin(nonce))",
                "  local was = redis.call('del', name)",
            )],
            (Bug::ReleasesAnybodys, Release) => vec![(
                "  if held(name, nonce) then\n    redis.call('del'",
                "  if redis.call('exists', name) == 1 then\n    redis.call('del'",
            )],
            (Bug::ReleasesAnybodys, DeleteIfOurs) => {
                vec![("redis.call('get', KEYS[1]) == ARGV[1] and ", "")]
            }
            (Bug::RenewsAnybodys, Renew) if redlock => {
                vec![("  elseif who ~= nonce then", "  elseif not who then")]
            }
            (Bug::RenewsAnybodys, Renew) if read_write => {
                vec![("  if not is_twin and not ends(name, nonce) then", "  if is_free(name) then")]
            }
            (Bug::ReadsBesideWriter, Acquire) if read_write => vec![(
                "  elseif reads(nonce) and (holders ~= '1' or reads(who)) then",
                "  elseif reads(nonce) then",
            )],
            (Bug::SlotOfOthers, Acquire) => vec![(
                "  local other = conflict(KEYS[i], ARGV[1])\n",
                "  local other = conflict(KEYS[i], ARGV[1])\n\
                 if PERMIT and other and redis.call('exists', KEYS[#KEYS - 1]) == 0 then\n\
                 redis.call('del', KEYS[i])\n\
                 other = nil\n\
                 end\n",
            )],
            (Bug::RenewsAnybodys, Renew) => vec![(
                "redis.pcall('hget', name, nonce)",
                "redis.pcall('hget', name, redis.call('hkeys', name)[1] or '')",
            )],
            (Bug::RenewalRecreates, Renew) => vec![(
                "  out[i] = extend(name, ARGV[at], ttl, ARGV[at + 2])\n",
                "  out[i] = extend(name, ARGV[at], ttl, ARGV[at + 2])\n\
                 if out[i] == 0 and redis.call('exists', name) == 0 then\n\
                 out[i] = put(name, ARGV[at], ttl, ARGV[at + 2]) or 1\n\
                 end\n",
            )],
            _ => Vec::new(),
        }
    }
}

impl Known {
    fn add(&mut self, text: &str) -> Arc<Script> {
        let kind = kind_of(text).unwrap_or_else(|| panic!("an unknown script: {text}"));
        let text: Arc<str> = text.into();
        let digest = sha1_smol::Sha1::from(text.as_bytes()).digest().to_string();
        let bound = text.split_once("STAMP, LONGEST = KEYS[#KEYS], '");
        let stamp = bound.and_then(|(_, rest)| Some(rest.split_once('\'')?.0.to_owned()));
        assert_eq!(stamp.is_some(), text.contains("STAMP"), "what the script is bound to");
        let id = self.next;
        self.next += 1;
        let script = Arc::new(Script { id, kind, text: text.clone(), digest, stamp });
        self.by_digest.insert(script.digest.clone(), script.clone());
        self.by_text.insert(text, script.clone());
        script
    }
}

/// # Panics
/// If the shipped script has changed, so that the patch no longer fits.
fn patch(text: &mut String, from: &str, to: &str) {
    assert!(text.contains(from), "a patch of a script no longer fits: {from}");
    *text = text.replace(from, to);
}
