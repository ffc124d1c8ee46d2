//! Options that select a part of an archive.

use crate::command_line::{AvailableValues, requested};
use crate::print::process;
use crate::print::process::{RankRange, Time};
use analysis::{Filter, Role, Trace};
use anyhow::{Result, bail};
use clap::Args;
use otf2::CommRef;

#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct Select {
    /// Only these communicators: by name, with or without size, or by NCCL's id, such as world or 0x73aeb19c99d929a8
    #[arg(long, value_name = "COMM", value_delimiter = ',')]
    comm: Vec<String>,

    /// Only these ranks (of their communicators), such as 3 or 0,4-7
    #[arg(long, value_name = "RANK", value_delimiter = ',')]
    pub(crate) rank: Vec<RankRange>,

    /// Only these functions, such as AllReduce,Send
    #[arg(long, value_name = "FUNCTION", value_delimiter = ',')]
    function: Vec<String>,

    /// Only what runs at or after this time: 1.5s, 20ms, 300us or 5ns after the beginning, or @TIME since 1970 in ns
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<Time>,

    /// Only what runs at or before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<Time>,
}

impl Select {
    /// The filter for journals. They contain no operations, so `--function` is refused.
    pub(crate) fn journal_filter(&self) -> Result<process::Filter> {
        if !self.function.is_empty() {
            bail!(
                "--function: not for journals, whose callbacks belong to no single function; use --comm, --rank, \
                --from and --to"
            );
        }
        Ok(process::Filter::new(&self.comm, &self.rank, (self.from, self.to)))
    }

    /// Call after [`Self::filter`], which refuses ranges with ranks that are not there.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        self.rank.iter().flat_map(RankRange::ranks).filter_map(|rank| u32::try_from(rank).ok()).collect()
    }

    /// Whether only a time and ranks are selected, which is what a page of one run can be cut to.
    pub(crate) fn is_of_page(&self) -> bool {
        self.comm.is_empty() && self.function.is_empty()
    }

    /// The filter for an archive. Names that the archive lacks are refused.
    pub(crate) fn filter(&self, trace: &Trace) -> Result<Filter> {
        let comms = || trace.definitions.comms.keys().copied();
        let is_wanted = |wanted: &str, comm: CommRef| is_meant(wanted, &trace.comm_name(comm), trace.comm_id(comm));
        let meant = |wanted: &str| comms().filter(|comm| is_wanted(wanted, *comm)).collect::<Vec<_>>();
        let communicators: Vec<_> = self.comm.iter().flat_map(|wanted| meant(wanted)).collect();
        let begin_ns = trace.start_ns();
        let is_absolute = |time: Option<Time>| matches!(time, Some(Time::Absolute(_)));
        if begin_ns.is_none() && (is_absolute(self.from) || is_absolute(self.to)) {
            bail!("the archive does not say when it began: give a time after its beginning, such as 1.5s");
        }
        let begin_ns = begin_ns.unwrap_or(0);
        let present =
            AvailableValues::new(trace, begin_ns, |comm| communicators.is_empty() || communicators.contains(&comm));
        present.has_communicators(&self.comm, |wanted| !meant(wanted).is_empty())?;
        present.has_ranks(self.rank.iter().flat_map(RankRange::ranks))?;
        let [from_ns, to_ns] = [self.from, self.to].map(|time| time.map(|time| time.absolute_ns(begin_ns)));
        present.has_time(from_ns, to_ns)?;
        let filter = Filter {
            communicators,
            functions: self.function.clone(),
            ranks: self.ranks(),
            from_ns: from_ns.map(|ns| ns.saturating_sub(begin_ns)),
            to_ns: to_ns.map(|ns| ns.saturating_sub(begin_ns)),
            step: None,
        };
        let single = |name: &str| Filter { functions: vec![name.to_owned()], ..Filter::default() };
        let is_there = |name: &str| {
            let (single, mut regions) = (single(name), trace.definitions.regions.keys());
            regions.any(|region| {
                matches!(trace.role(*region), Some(Role::Operation(_) | Role::Call(_)))
                    && single.wants_function(trace, *region)
            })
        };
        present.has_functions(&self.function, is_there)?;
        Ok(filter)
    }

    /// Fails if the filters together match nothing; `found` is the number of matches.
    pub(crate) fn refuse_nothing(&self, trace: &Trace, found: u64) -> Result<()> {
        let time = |flag: &str, time: Option<Time>| time.map(|time| format!("{flag} {time}"));
        let filters = [
            requested("--comm", &self.comm),
            requested("--rank", &self.rank),
            requested("--function", &self.function),
            time("--from", self.from),
            time("--to", self.to),
        ];
        AvailableValues::new(trace, 0, |_| true).refuse_nothing(filters, found)
    }
}

/// The name of a communicator without its number of ranks.
pub(crate) fn without_size(name: &str) -> &str {
    let sized = name.strip_suffix(')').and_then(|name| name.rsplit_once(" ("));
    sized.map_or(name, |(base, _)| base)
}

/// Whether `wanted` is a communicator's id, or its name with or without size and repetition number. An unknown
/// communicator has an empty name and no id.
pub(crate) fn is_meant(wanted: &str, name: &str, id: Option<u64>) -> bool {
    let number = match wanted.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => wanted.parse().ok(),
    };
    let is_id = number.is_some() && number == id;
    let base = without_size(name);
    let first = base.rsplit_once(" #").map_or(base, |(first, _)| first);
    is_id || !name.is_empty() && [name, base, first].iter().any(|name| wanted.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::is_meant;

    #[test]
    fn a_communicator_is_meant_by_name_or_id() {
        for wanted in ["world #2 (8)", "world #2", "World", "0xff", "255"] {
            assert!(is_meant(wanted, "world #2 (8)", Some(255)), "{wanted}");
        }
        for wanted in ["world (8)", "world #3", "0xfe", ""] {
            assert!(!is_meant(wanted, "world #2 (8)", Some(255)), "{wanted}");
        }
        assert!(!is_meant("0xff", "", None) && !is_meant("", "", None));
    }
}
