//! What of an archive statistics are made of.

use analysis::{Filter, Trace};
use anyhow::{Result, bail};
use clap::Args;

use crate::listing::{self, Time};

/// What of an archive is looked at.
#[derive(Debug, Default, PartialEq, Args)]
pub(crate) struct Select {
    /// Only these communicators: by name or id
    #[arg(long, value_name = "COMM", value_delimiter = ',')]
    comm: Vec<String>,

    /// Only these ranks (of their communicators)
    #[arg(long, value_name = "RANK", value_delimiter = ',')]
    pub(crate) rank: Vec<u32>,

    /// Only these functions, such as AllReduce,Send
    #[arg(long, value_name = "FUNCTION", value_delimiter = ',')]
    function: Vec<String>,

    /// Only what goes on at or after this time: 1.5s, 20ms, 300us or 5ns after the beginning, or @TIME since 1970 in ns
    #[arg(long, value_name = "TIME")]
    from: Option<Time>,

    /// Only what goes on at or before this time
    #[arg(long, value_name = "TIME")]
    to: Option<Time>,
}

impl Select {
    /// The same for journals, which have no operations to be asked for by their functions.
    pub(crate) fn of_journals(&self) -> Result<listing::Filter> {
        if !self.function.is_empty() {
            bail!(
                "--function: journals have callbacks, which belong to no single function; --comm, --rank, --from and --to go"
            );
        }
        Ok(listing::Filter::of(&self.comm, &self.rank, (self.from, self.to)))
    }

    /// The same, with names looked up in an archive.
    pub(crate) fn filter(&self, trace: &Trace) -> Result<Filter> {
        let comms = trace.definitions.comms.keys().copied();
        let is_meant = |name: &str| self.comm.iter().any(|wanted| is_meant(wanted, name));
        let communicators = comms.filter(|comm| is_meant(&trace.comm_name(*comm))).collect::<Vec<_>>();
        if communicators.is_empty() && !self.comm.is_empty() {
            bail!("no communicator is called {} (`nccl-otf2 info` lists them)", self.comm.join(" or "));
        }
        let begin_ns = trace.start_ns();
        let after = |time: Option<Time>| match (time, begin_ns) {
            (Some(Time::Relative(ns)), _) => Ok(Some(ns)),
            (Some(Time::Absolute(ns)), Some(begin_ns)) => Ok(Some(ns.saturating_sub(begin_ns))),
            (Some(Time::Absolute(_)), None) => {
                bail!("the archive does not say when it began: give a time after its beginning, such as 1.5s")
            }
            (None, _) => Ok(None),
        };
        Ok(Filter {
            communicators,
            functions: self.function.clone(),
            ranks: self.rank.clone(),
            from_ns: after(self.from)?,
            to_ns: after(self.to)?,
        })
    }
}

/// Whether a communicator is meant by its name, with or without the number of its repetition.
fn is_meant(wanted: &str, name: &str) -> bool {
    let base = name.rsplit_once(" #").map_or(name, |(base, _)| base);
    wanted.eq_ignore_ascii_case(name) || wanted.eq_ignore_ascii_case(base)
}
