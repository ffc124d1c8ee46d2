//! The tables that span ranks: instances of collectives, and ranks.

use std::path::Path;

use analysis::read::Tables;
use analysis::{Incomparable, MatchedCollective, MatchedCollectives, Trace};
use nccl_events::collective::Flow;
use nccl_events::ids::index;

use super::rows;
use super::table_file::{TableFiles, Written};
use super::values::{host, small};
use crate::error::Result;
use crate::source::Source;
use crate::value::signed;

pub(super) struct Collectives {
    of_operations: Vec<OfOperation>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OfOperation {
    event: u64,
    pub(super) instance: i64,
    /// How long it waited for the last rank; `None` if the clocks cannot tell.
    pub(super) waiting_ns: Option<i64>,
}

impl Collectives {
    /// Reads all operations, which are in memory together while they are matched, and writes both tables.
    pub(super) fn write(source: &Source<'_>, files: &TableFiles) -> Result<(Self, Vec<Written>)> {
        let trace = source.trace;
        let tables = Tables::read(trace, source.progress)?;
        let matched = MatchedCollectives::of(trace, &tables, source.filter);
        let mut instances = files.create("instances", Path::new(""));
        let mut of_operations = Vec::new();
        for (number, instance) in (0..).zip(&matched.all) {
            let operations = matched.operations(instance);
            for row in operations {
                let waiting_ns = instance.waiting_ns(&tables, *row).filter(|_| instance.is_comparable()).map(signed);
                let event = tables.operations.event.get(index(*row));
                of_operations.push(OfOperation { event, instance: number, waiting_ns });
            }
            instances.push(row(trace, &tables, instance, number, operations.len()));
        }
        of_operations.sort_unstable_by_key(|it| it.event);
        let mut ranks = files.create("ranks", Path::new(""));
        for row in self::ranks(trace, &tables) {
            ranks.push(row);
        }
        Ok((Self { of_operations }, [instances.close()?, ranks.close()?].into_iter().flatten().collect()))
    }

    pub(super) fn of_operation(&self, event: Option<u64>) -> Option<OfOperation> {
        self.of_operations.get(self.of_operations.binary_search_by_key(&event?, |it| it.event).ok()?).copied()
    }
}

fn row<'a>(
    trace: &'a Trace,
    tables: &Tables,
    it: &MatchedCollective,
    number: i64,
    operations: usize,
) -> rows::Instance<'a> {
    let last = it.last.map(|row| tables.members.row(row));
    rows::Instance {
        instance: number,
        communicator: small(it.communicator),
        function: trace.region(it.function).map_or("", |region| region.name),
        sequence: it.sequence.map(signed),
        warm_up: it.is_warm_up,
        bytes: signed(it.bytes),
        flow: match it.flow {
            Flow::AllToAll => "all-to-all",
            Flow::FromRoot => "from-root",
            Flow::ToRoot => "to-root",
        },
        ranks: i32::try_from(operations).unwrap_or(i32::MAX),
        first_ns: signed(it.arrivals.first_ns),
        last_ns: it.is_comparable().then_some(signed(it.arrivals.last_ns)),
        end_ns: signed(it.arrivals.end_ns),
        last_rank: last.map(|member| small(member.rank)),
        last_job_rank: last.map(|member| small(member.job_rank)),
        error_ns: it.arrivals.error_ns.ok().map(signed),
        incomparable: it.arrivals.error_ns.err().map(|why| match why {
            Incomparable::RankMissing => "rank-missing",
            Incomparable::Unfinished => "unfinished",
            Incomparable::NotMeasured => "not-measured",
            Incomparable::ClockUnknown => "clock-unknown",
            Incomparable::Contradiction => "contradiction",
        }),
    }
}

fn ranks<'a>(trace: &'a Trace, tables: &Tables) -> impl Iterator<Item = rows::Rank<'a>> {
    let members = &tables.members;
    members.all.iter().filter_map(|member| {
        let job_rank = members.job_ranks.get(index(member.job_rank))?;
        let comm = members.communicators.get(index(member.communicator))?;
        let name = trace.definitions.comms.get(comm).and_then(|comm| trace.definitions.string(comm.name));
        Some(rows::Rank {
            communicator: small(member.communicator),
            communicator_name: name.unwrap_or_default(),
            rank: small(member.rank),
            job_rank: small(member.job_rank),
            job_rank_number: job_rank.number.map(small),
            host: host(trace, job_rank.process),
            process: small(job_rank.process.get()),
            process_name: trace.group_name(job_rank.process),
            group_name: trace.group_name(job_rank.group),
            location: member.location.get().cast_signed(),
        })
    })
}
