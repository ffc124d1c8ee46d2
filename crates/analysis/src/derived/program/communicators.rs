//! How long communicators took to make and end, and which rank called last.

use std::collections::BTreeMap;

use nccl_events::archive::RegionClass;
use nccl_events::collective::is_of_communicators;
use otf2::{LocationGroupRef, RegionRef};

use crate::archive::Trace;
use crate::derived::filter::Filter;
use crate::report::CommunicatorCall;
use crate::tables::{Call, NONE, Tables};
use nccl_events::ids::index as large;

/// The calls of each rank of a process, in the order of time.
type OfRanks = BTreeMap<(LocationGroupRef, u32), Vec<Call>>;

/// Whether a region is a call that all ranks of a communicator make to create or end one.
pub(super) fn is_one(trace: &Trace, region: RegionRef) -> bool {
    let Some(region) = trace.region(region) else {
        return false;
    };
    region.class == RegionClass::Api && is_of_communicators(region.name)
}

/// One row for each call that ranks make together: of one function and communicator, the k-th of each process.
pub(in crate::derived) fn communicator_calls(trace: &Trace, tables: &Tables, filter: &Filter) -> Vec<CommunicatorCall> {
    let mut calls: Vec<Call> = tables.calls.rows().filter(|call| is_one(trace, call.function)).collect();
    nccl_events::sort::sort_by_key(&mut calls, |call| call.start_ns);
    let mut made: BTreeMap<(RegionRef, u32), OfRanks> = BTreeMap::new();
    for call in calls {
        let process = trace.process(trace.group(call.location));
        let of_rank = made.entry((call.function, call.comm)).or_default().entry((process, call.rank)).or_default();
        of_rank.push(call);
    }
    let texts = tables.paths.texts();
    let mut found = Vec::new();
    for ((function, comm), ranks) in &made {
        for turn in 0..ranks.values().map(Vec::len).max().unwrap_or(0) {
            let calls = || ranks.values().filter_map(|calls| calls.get(turn));
            let (Some(first), Some(last)) =
                (calls().min_by_key(|call| call.start_ns), calls().max_by_key(|call| call.start_ns))
            else {
                continue;
            };
            found.push(CommunicatorCall {
                function: trace.region_name(*function),
                communicator: texts.get(large(*comm)).cloned().unwrap_or_default(),
                ranks: calls().count() as u64,
                unfinished: calls().filter(|call| call.is_unfinished).count() as u64,
                start_ns: first.start_ns,
                duration_ns: calls().map(|call| call.stop_ns.saturating_sub(call.start_ns)).max().unwrap_or(0),
                skew_ns: last.start_ns - first.start_ns,
                last_rank: Some(last.rank).filter(|rank| *rank != NONE),
                last_process: trace.group_name(trace.process(trace.group(last.location))).to_owned(),
            });
        }
    }
    found.retain(|call| filter.wants_time(call.start_ns, call.start_ns + call.duration_ns));
    nccl_events::sort::sort_by_key(&mut found, |call| call.start_ns);
    found
}
