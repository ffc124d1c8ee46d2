//! What all verbs have in common on the command line: exit codes, `--version`, and what a recording contains. A filter
//! value that matches nothing is refused with that list.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::LazyLock;

use analysis::read::{Member, Members};
use analysis::units::time;
use analysis::{Clock, Role, Trace};
use anyhow::{Result, bail, ensure};
use journal::format::FORMAT_VERSION;
use nccl_events::archive::LocationKind;
use nccl_events::sort::Gather;
use otf2::CommRef;

/// What a recording contains.
#[derive(Debug, Default)]
pub(crate) struct AvailableValues {
    pub(crate) what: &'static str,
    pub(crate) communicators: BTreeSet<String>,
    /// Recorded ranks of the selected communicators.
    pub(crate) ranks: BTreeSet<i64>,
    /// Their ranks in the job, if known and different.
    pub(crate) in_job: Option<BTreeSet<i64>>,
    pub(crate) functions: BTreeSet<String>,
    pub(crate) begin_ns: u64,
    /// End of the recording, on the same clock; `None` if unknown.
    pub(crate) end_ns: Option<u64>,
}

/// Maximum number of names listed in a message.
const MOST: usize = 12;

impl AvailableValues {
    /// What an archive contains. Ranks are listed only for the wanted communicators.
    pub(crate) fn new(trace: &Trace, begin_ns: u64, is_wanted: impl Fn(CommRef) -> bool) -> Self {
        let comms = || trace.definitions.comms.keys().copied();
        let is_recorded = |location| trace.location_kind(location) != Some(LocationKind::NotRecorded);
        let ranks =
            |comm| (0..).zip(trace.members(comm)).filter(|(_, location)| is_recorded(**location)).map(|(rank, _)| rank);
        let ranks: BTreeSet<i64> = comms().filter(|comm| is_wanted(*comm)).flat_map(ranks).gather();
        let members = Members::from_trace(trace);
        let comm =
            |member: &Member| usize::try_from(member.communicator).ok().and_then(|at| members.communicators.get(at));
        let wanted = members.all.iter().filter(|member| comm(member).is_some_and(|comm| is_wanted(*comm)));
        let in_job =
            wanted.map(|member| members.job_ranks.get(usize::try_from(member.job_rank).ok()?)?.number.map(i64::from));
        let in_job = in_job.collect::<Option<BTreeSet<i64>>>().filter(|in_job| *in_job != ranks);
        let regions = trace.definitions.regions.keys().copied();
        let regions = regions.filter(|region| matches!(trace.role(*region), Some(Role::Operation(_))));
        let length_ns = Clock::from_trace(trace).length_ns(trace);
        Self {
            what: "the archive",
            communicators: comms().map(|comm| trace.comm_name(comm)).gather(),
            ranks,
            in_job,
            functions: regions.filter_map(|region| Some(trace.region(region)?.name.to_owned())).gather(),
            begin_ns,
            end_ns: (length_ns > 0).then(|| begin_ns.saturating_add(length_ns)),
        }
    }

    pub(crate) fn has_communicators(&self, wanted: &[String], is_there: impl Fn(&str) -> bool) -> Result<()> {
        match wanted.iter().find(|name| !is_there(name)) {
            Some(name) => bail!("no communicator named {name}: {} has {}", self.what, names(&self.communicators)),
            None => Ok(()),
        }
    }

    pub(crate) fn has_ranks(&self, wanted: impl IntoIterator<Item = i64>) -> Result<()> {
        match wanted.into_iter().find(|rank| !self.ranks.contains(rank)) {
            Some(rank) => {
                let in_job = self.in_job.as_ref().map_or_else(String::new, |in_job| {
                    let in_job = ranks(in_job);
                    format!(" in these communicators, {in_job} of the job; --rank takes the number in the communicator")
                });
                bail!("no rank {rank}: {} has {}{in_job}", self.what, ranks(&self.ranks))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn has_functions(&self, wanted: &[String], is_there: impl Fn(&str) -> bool) -> Result<()> {
        match wanted.iter().find(|name| !is_there(name)) {
            Some(name) => bail!("no function {name}: {} has {}", self.what, names(&self.functions)),
            None => Ok(()),
        }
    }

    /// Refuses a time outside the recording, on the clock of `begin_ns`.
    pub(crate) fn has_time(&self, from_ns: Option<u64>, to_ns: Option<u64>) -> Result<()> {
        let after = |ns: u64| time(ns.saturating_sub(self.begin_ns));
        if let Some((from_ns, to_ns)) = from_ns.zip(to_ns) {
            ensure!(from_ns <= to_ns, "--from {} is after --to {}", after(from_ns), after(to_ns));
        }
        if let Some((from_ns, end_ns)) = from_ns.zip(self.end_ns).filter(|(from_ns, end_ns)| from_ns > end_ns) {
            bail!("--from {} is after the end of {}, {}", after(from_ns), self.what, after(end_ns));
        }
        if let Some(to_ns) = to_ns.filter(|to_ns| *to_ns < self.begin_ns) {
            let before = time(self.begin_ns - to_ns);
            bail!("--to is {before} before the beginning of {}", self.what);
        }
        Ok(())
    }

    /// Refuses filters that each match something but together nothing. `found` is the number of matches.
    pub(crate) fn refuse_nothing(&self, filters: impl IntoIterator<Item = Option<String>>, found: u64) -> Result<()> {
        let filters: Vec<String> = filters.into_iter().flatten().collect();
        match filters.as_slice() {
            [] => Ok(()),
            _ if found > 0 => Ok(()),
            [one] => bail!("nothing in {} matches {one}", self.what),
            all => bail!(
                "nothing in {} matches all of {}, although each of them alone matches something",
                self.what,
                all.join(", ")
            ),
        }
    }
}

/// For example "--rank 1,2"; `None` if `values` is empty.
pub(crate) fn requested<T: ToString>(flag: &str, values: &[T]) -> Option<String> {
    let values: Vec<String> = values.iter().map(T::to_string).collect();
    (!values.is_empty()).then(|| format!("{flag} {}", values.join(",")))
}

fn names(names: &BTreeSet<String>) -> String {
    let mut text = names.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        // Writing to a string does not fail.
        let _written = write!(text, " and {} more", names.len() - MOST);
    }
    if text.is_empty() { "none".to_owned() } else { text }
}

/// For example "ranks 0 to 7", "rank 3", "ranks 0 to 2, 5".
fn ranks(ranks: &BTreeSet<i64>) -> String {
    let ranks: Vec<i64> = ranks.iter().copied().collect();
    let runs: Vec<String> = ranks
        .chunk_by(|a, b| a + 1 == *b)
        .filter_map(|run| {
            let (first, last) = (run.first()?, run.last()?);
            Some(if first == last { first.to_string() } else { format!("{first} to {last}") })
        })
        .collect();
    let number = if ranks.len() == 1 { "rank" } else { "ranks" };
    match runs.len() {
        0 => "no ranks".to_owned(),
        1..=MOST => format!("{number} {}", runs.join(", ")),
        more => format!("{number} {} and {} more", runs[..MOST].join(", "), more - MOST),
    }
}

/// Exit codes, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Well,
    Problems,
    /// Wrong usage, or a file that cannot be read or written. clap exits with the same code.
    CannotDo,
    /// `diff --fail-if-slower`: the second run is slower.
    Slower,
    /// `diff --fail-if-slower`: the runs do not show whether the second one is slower.
    NotShown,
    Command(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Well => Self::SUCCESS,
            Exit::Problems => Self::from(1),
            Exit::CannotDo => Self::from(2),
            Exit::Slower => Self::from(3),
            Exit::NotShown => Self::from(4),
            Exit::Command(code) => Self::from(code),
        }
    }
}

/// The version of this tool.
pub(crate) fn short() -> &'static str {
    settings::VERSION
}

/// The versions of everything that affects the contents of archives.
pub(crate) fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        let (major, minor, bugfix) = otf2_sys::HEADER_VERSION;
        format!("{}\nOTF2 {major}.{minor}.{bugfix}\njournal format {FORMAT_VERSION}", short())
    });
    &LONG
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_names_and_ranks_that_fit() {
        assert_eq!(ranks(&[0, 1, 2, 5].into()), "ranks 0 to 2, 5");
        assert_eq!((ranks(&[3].into()), ranks(&BTreeSet::new())), ("rank 3".to_owned(), "no ranks".to_owned()));
        let many = names(&(0..20).map(|at| format!("nccl{at:02}")).collect());
        assert!(many.starts_with("nccl00, nccl01, ") && many.ends_with(", nccl11 and 8 more"), "{many}");
        let present =
            AvailableValues { ranks: [0, 1, 5].into(), in_job: Some([4, 5, 9].into()), ..AvailableValues::default() };
        let refused = present.has_ranks([4]).expect_err("no such rank").to_string();
        assert!(refused.contains("ranks 0 to 1, 5 in these communicators, ranks 4 to 5, 9 of the job;"), "{refused}");
    }
}
