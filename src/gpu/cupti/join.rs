//! Finds the launch of each kernel, reports each kind of fault once, and detects when no records come. CUPTI reports a
//! launch in two records: a CUDA call with a correlation id was made under an external id of the plugin; and a kernel
//! with that correlation id ran. They come in any order, in different buffers, minutes apart. A kernel without an
//! external id is NCCL's if its name shows it (graph replays have no ids), else foreign.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use crate::gpu::output::Output;
use cupti_sys::Code;
use nccl_events::gpu::Backend as BackendKind;

pub(crate) trait Work {
    fn is_nccl_by_name(&self) -> bool;
    /// Whether the work ran as a node of a graph, and so has no call of its own.
    fn is_of_graph(&self) -> bool;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Launch(u64),
    /// NCCL's by its name; the launch is unknown.
    Nccl,
    Foreign,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct JoinedWork<W> {
    pub(crate) owner: Owner,
    pub(crate) work: W,
}

/// How long a launch is kept after its work came, because other calls were made under its id.
const KEEP_MATCHED: Duration = Duration::from_secs(5);
/// How long a launch waits for work, and NCCL's work for a launch.
const KEEP: Duration = Duration::from_secs(60);
/// How long other work waits: buffers that CUPTI requested at the same time are returned within two flushes.
const KEEP_OTHERS: Duration = Duration::from_secs(2);
const MOST_WAITING: usize = 1 << 16;

/// Work that waits for the call with its correlation id, and the time when it came.
#[derive(Debug, Clone, Copy)]
struct WaitingWork {
    since: Duration,
    key: u64,
}

#[derive(Debug)]
struct Launch {
    matched: bool,
    /// Whether the launch has several pieces of work, as copy-engine collectives do.
    has_many: bool,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    since: Duration,
    key: u64,
    id: u64,
}

#[derive(Debug)]
pub(crate) struct Join<W> {
    /// The highest correlation id so far, with its overflow count in the upper half.
    newest: Option<u64>,
    /// External ids by correlation id.
    calls: HashMap<u64, u64>,
    launches: HashMap<u64, Launch>,
    /// Calls in order of arrival; `young` calls wait for [`KEEP_MATCHED`], `old` ones for [`KEEP`].
    young: VecDeque<Call>,
    old: VecDeque<Call>,
    /// Work that came before its call, by correlation id.
    waiting: HashMap<u64, Vec<W>>,
    nccl_waits: VecDeque<WaitingWork>,
    other_waits: VecDeque<WaitingWork>,
    expects_ids: bool,
    matched: u64,
    unmatched: u64,
}

impl<W: Work> Join<W> {
    pub(crate) fn new() -> Self {
        Self {
            newest: None,
            calls: HashMap::new(),
            launches: HashMap::new(),
            young: VecDeque::new(),
            old: VecDeque::new(),
            waiting: HashMap::new(),
            nccl_waits: VecDeque::new(),
            other_waits: VecDeque::new(),
            expects_ids: false,
            matched: 0,
            unmatched: 0,
        }
    }

    /// External ids are possible from now on, and work waits for them.
    pub(crate) fn expect_ids(&mut self) {
        self.expects_ids = true;
    }

    /// The number of launches whose work came since the last call.
    pub(crate) fn take_matched(&mut self) -> u64 {
        std::mem::take(&mut self.matched)
    }

    /// The number of launches given up since the last call.
    pub(crate) fn take_unmatched(&mut self) -> u64 {
        std::mem::take(&mut self.unmatched)
    }

    #[cfg(test)]
    fn open(&self) -> usize {
        self.launches.values().filter(|launch| !launch.matched).count()
    }

    /// Extends a correlation id, which has 32 bits and overflows: ids close to the newest get its overflow count.
    fn key(&mut self, correlation: u32) -> u64 {
        const ROUND: u64 = 1 << 32;
        let Some(newest) = self.newest else {
            let first = ROUND + u64::from(correlation);
            self.newest = Some(first);
            return first;
        };
        let here = newest - newest % ROUND + u64::from(correlation);
        let half = ROUND / 2;
        let key = if here + half < newest {
            here + ROUND
        } else if here > newest + half {
            here.saturating_sub(ROUND)
        } else {
            here
        };
        self.newest = Some(newest.max(key));
        key
    }

    /// A call was made under `id`, at `now`. `has_many`: the call belongs to a collective with several pieces of work.
    pub(crate) fn call(
        &mut self,
        now: Duration,
        correlation: u32,
        id: u64,
        has_many: bool,
        out: &mut Vec<JoinedWork<W>>,
    ) {
        self.expects_ids = true;
        let key = self.key(correlation);
        self.calls.insert(key, id);
        self.launches.entry(id).or_insert(Launch { matched: false, has_many });
        self.young.push_back(Call { since: now, key, id });
        if let Some(waited) = self.waiting.remove(&key) {
            out.extend(waited.into_iter().map(|work| JoinedWork { owner: Owner::Launch(id), work }));
            self.has_matched(key, id);
        }
    }

    pub(crate) fn launches_nothing(&mut self, correlation: u32) {
        let key = self.key(correlation);
        // Calls of a copy-engine collective stay: its copies are runtime calls, and the driver calls below them can
        // have the same correlation ids.
        let launch = self.calls.get(&key).and_then(|id| self.launches.get(id));
        if launch.is_some_and(|launch| !launch.has_many) {
            self.calls.remove(&key);
        }
    }

    pub(crate) fn work(&mut self, now: Duration, correlation: u32, work: W, out: &mut Vec<JoinedWork<W>>) {
        let key = self.key(correlation);
        if let Some(&id) = self.calls.get(&key) {
            self.has_matched(key, id);
            out.push(JoinedWork { owner: Owner::Launch(id), work });
        } else if work.is_of_graph() || !self.expects_ids {
            out.push(owned_by_name(work));
        } else {
            let waits = if work.is_nccl_by_name() { &mut self.nccl_waits } else { &mut self.other_waits };
            waits.push_back(WaitingWork { since: now, key });
            self.waiting.entry(key).or_default().push(work);
        }
    }

    fn has_matched(&mut self, key: u64, id: u64) {
        let Some(launch) = self.launches.get_mut(&id) else {
            return;
        };
        if !launch.matched {
            launch.matched = true;
            self.matched += 1;
        }
        if !launch.has_many {
            // A call has one kernel: no more work comes.
            self.calls.remove(&key);
        }
    }

    /// Gives up calls and work that have waited long enough.
    pub(crate) fn sweep(&mut self, now: Duration, out: &mut Vec<JoinedWork<W>>) {
        self.sweep_calls(now);
        self.sweep_work(now, out);
    }

    fn sweep_calls(&mut self, now: Duration) {
        while let Some(call) = self.young.pop_front_if(|call| has_passed(now, call.since, KEEP_MATCHED)) {
            match self.launches.get(&call.id) {
                Some(launch) if launch.matched && !launch.has_many => {
                    self.launches.remove(&call.id);
                    self.calls.remove(&call.key);
                }
                Some(_) => self.old.push_back(call),
                None => {
                    self.calls.remove(&call.key);
                }
            }
        }
        while let Some(call) = self.old.pop_front_if(|call| has_passed(now, call.since, KEEP)) {
            self.give_up(call);
        }
    }

    fn give_up(&mut self, call: Call) {
        self.calls.remove(&call.key);
        if self.launches.remove(&call.id).is_some_and(|launch| !launch.matched) {
            self.unmatched += 1;
        }
    }

    fn sweep_work(&mut self, now: Duration, out: &mut Vec<JoinedWork<W>>) {
        for (waits, keep) in [(&mut self.nccl_waits, KEEP), (&mut self.other_waits, KEEP_OTHERS)] {
            while let Some(entry) = {
                let is_full = self.waiting.len() > MOST_WAITING;
                waits.pop_front_if(|entry| is_full || has_passed(now, entry.since, keep))
            } {
                let waited = self.waiting.remove(&entry.key).unwrap_or_default();
                out.extend(waited.into_iter().map(owned_by_name));
            }
        }
    }

    /// No more records come: gives up everything that waits.
    pub(crate) fn end(&mut self, out: &mut Vec<JoinedWork<W>>) {
        for entry in self.nccl_waits.drain(..).chain(self.other_waits.drain(..)) {
            let waited = self.waiting.remove(&entry.key).unwrap_or_default();
            out.extend(waited.into_iter().map(owned_by_name));
        }
        for call in std::mem::take(&mut self.young).into_iter().chain(std::mem::take(&mut self.old)) {
            self.give_up(call);
        }
    }
}

fn has_passed(now: Duration, since: Duration, time: Duration) -> bool {
    now.saturating_sub(since) >= time
}

fn owned_by_name<W: Work>(work: W) -> JoinedWork<W> {
    let owner = if work.is_nccl_by_name() { Owner::Nccl } else { Owner::Foreign };
    JoinedWork { owner, work }
}

/// Messages to the user about CUPTI: each kind of fault is reported once.
#[derive(Debug, Default)]
pub(crate) struct Reports(Vec<Discriminant<Fault>>);

#[derive(Clone, Debug)]
pub(crate) enum Fault {
    PushFailed(Code),
    IdsDisturbed,
    FlushFailed(Code),
    FlushHangs,
    ForeignBuffers,
    NoBuffer,
    Dropped(u64),
    DroppedUnknown(Code),
    BadRecord(String),
    NoTimes,
}

impl Reports {
    /// Reports a fault, unless a fault of the same kind has been reported.
    pub(crate) fn once(&mut self, fault: &Fault, out: &mut dyn Output) {
        let kind = discriminant(fault);
        if !self.0.contains(&kind) {
            self.0.push(kind);
            out.fault(BackendKind::Cupti, &fault.to_string());
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PushFailed(code) => write!(
                f,
                "CUPTI does not accept the ids of launches, {code}{}; kernels are not matched to launches",
                remedy(*code)
            ),
            Self::IdsDisturbed => f.write_str(
                "another component of the program uses the same kind of CUPTI external ids (CUSTOM2): kernels may be \
                matched to wrong launches, or to none",
            ),
            Self::FlushFailed(code) => {
                write!(f, "CUPTI does not return its records, {code}{}; kernels may be missing", remedy(*code))
            }
            Self::FlushHangs => f.write_str(
                "CUPTI has not returned its records in time (cuptiActivityFlushAll): the plugin stops waiting, and \
                kernels may be missing",
            ),
            Self::ForeignBuffers => f.write_str(
                "CUPTI returned buffers of another component of the program (torch.profiler?): kernels may be missing \
                in both. Run without that component, or set NCCL_OTF2_GPU=events",
            ),
            Self::NoBuffer => f.write_str("CUPTI asked for more memory than the limit of 512 MiB: kernels are missing"),
            Self::Dropped(records) => write!(f, "CUPTI dropped {records} records: kernels are missing"),
            Self::DroppedUnknown(code) => {
                write!(f, "CUPTI does not say how many records it dropped, {code}: kernels may be missing")
            }
            Self::BadRecord(what) => {
                write!(f, "CUPTI returned a buffer that cannot be read to its end: {what}; kernels may be missing")
            }
            Self::NoTimes => {
                f.write_str("CUPTI returned kernels or copies without times: they are counted but not recorded")
            }
        }
    }
}

fn remedy(code: Code) -> String {
    code.remedy().map_or(String::new(), |remedy| format!(": {remedy}"))
}

/// Fewer launches without records are no proof.
const LAUNCHES: u64 = 64;
/// Records can be late: CUPTI keeps a buffer while one of its kernels runs.
const PATIENCE: Duration = Duration::from_secs(4);

/// Detects when no records come. Another tool in the process can disable the activity kinds or get the plugin's
/// buffers, and CUPTI reports neither.
#[derive(Debug, Default)]
pub(crate) struct BuffersMissing {
    launches: u64,
    since: Option<Duration>,
    is_reported: bool,
}

impl BuffersMissing {
    /// Takes the number of new launches and records after a flush. True once, when it is certain that no records come.
    pub(crate) fn is_silent(&mut self, now: Duration, launches: u64, records: u64) -> bool {
        if records > 0 {
            (self.launches, self.since) = (0, None);
            return false;
        }
        self.launches += launches;
        if self.launches < LAUNCHES {
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let is_silent = now.saturating_sub(since) >= PATIENCE && !self.is_reported;
        self.is_reported |= is_silent;
        is_silent
    }
}

#[cfg(test)]
mod silence_tests {
    use crate::gpu::cupti::join::*;

    #[test]
    fn a_record_ends_the_silence() {
        let mut silence = BuffersMissing::default();
        for second in 0..20 {
            let records = u64::from(second % 4 == 3);
            assert!(!silence.is_silent(Duration::from_secs(second), 100, records));
        }
    }
}

#[cfg(test)]
mod tests;
