//! Real NCCL under the plugin.

use serde_json::{Value, json};

use super::job::{ALONE, Job, recorded, tool};
use crate::context::{Context, Shape};
use crate::outcome::{Answer, Outcome, Problems, with};

/// One rank: nothing is launched, and everything works.
pub(crate) fn one_rank(context: &Context<'_>) -> Answer {
    let archive = recorded("one", &ALONE, "off", "--ops allreduce,allgather").archived(context)?;
    Ok(Outcome::from_problems(&archive.faults, archive.facts()))
}

/// Several ranks: all operations are right, however NCCL lets them run.
pub(crate) fn several_ranks(context: &Context<'_>) -> Answer {
    let shape = context.shape()?;
    // The stand-in takes long for each operation.
    let arguments = if context.is_fake { "--ops allreduce,group --count 10000" } else { "--ops all --count 10000" };
    let archive = recorded("several", shape, "off", arguments).archived(context)?;
    Ok(Outcome::from_problems(&archive.faults, with(archive.facts(), json!({ "shape": shape.words }))))
}

/// One kernel and one id for each launch.
pub(crate) fn nccl_kernels(context: &Context<'_>) -> Answer {
    let arguments = "--ops allreduce,allgather,sendrecv,group --rounds 5 --count 10000";
    let archive = recorded("kernels", context.shape()?, "cupti", arguments).archived(context)?;
    let mut wrong = archive.faults.clone();
    wrong.unless(archive.is_by("cupti"), "not recorded by CUPTI");
    let (launches, joined) = (archive.number("launches"), archive.number("kernels_joined"));
    let all_joined = launches > 0 && joined == launches - archive.number("captured");
    wrong.unless(all_joined, format!("{launches} launches, {joined} kernels joined to them"));
    for lost in ["unmatched", "dropped_by_cupti", "bad_records", "foreign_buffers"] {
        wrong.unless(archive.number(lost) == 0, format!("{lost}: {}", archive.number(lost)));
    }
    let printed = tool(context, &["print", "--json"], &archive.folder)?.stdout;
    let region = |line: &str| {
        let record: Value = serde_json::from_str(line).ok()?;
        let region = record["region"].as_str()?;
        let is_kernel = region.contains("ncclDevKernel") || region.contains("ncclSymkDevKernel");
        is_kernel.then(|| region.to_owned())
    };
    let mut names: Vec<String> = printed.lines().filter_map(region).collect();
    names.sort();
    names.dedup();
    Ok(Outcome::from_problems(&wrong, with(archive.facts(), json!({ "kernel_names": names }))))
}

/// The GPU's own times of kernel channels, placed with the help of kernels.
pub(crate) fn kernel_channels(context: &Context<'_>) -> Answer {
    let job = recorded("channels", context.shape()?, "cupti", "--ops allreduce --rounds 10 --count 10000");
    let archive = Job { variables: &[("NCCL_OTF2_EVENTS", "full")], ..job }.archived(context)?;
    let (mut wrong, facts) = (archive.faults.clone(), archive.facts());
    let seen = facts["kinds"]["kernelch"]["seen"].as_u64();
    wrong.unless(seen > Some(0), "NCCL told of no kernel channel");
    Ok(Outcome::from_problems(&wrong, facts))
}

pub(crate) fn events_backend(context: &Context<'_>) -> Answer {
    let arguments = "--ops allreduce,sendrecv,graph --rounds 3 --count 10000";
    let archive = recorded("events", context.shape()?, "events", arguments).archived(context)?;
    let mut wrong = archive.faults.clone();
    let launches = archive.number("launches");
    let timed = archive.number("launches_timed") + archive.number("captured");
    let all_timed = archive.is_by("events") && launches > 0 && timed == launches;
    wrong.unless(all_timed, format!("{launches} launches, {timed} captured or timed by events"));
    Ok(Outcome::from_problems(&wrong, archive.facts()))
}

pub(crate) fn ends(context: &Context<'_>) -> Answer {
    let shape = context.shape()?;
    // Each takes seconds on the stand-in.
    let all: &[&str] = &["finalize", "destroy", "abort", "order", "exit"];
    let (mut facts, mut wrong) = (json!({}), Problems::default());
    for end in if context.is_fake { &["exit"] } else { all } {
        let arguments = format!("--ops allreduce --end {end} --count 10000");
        match recorded(end, shape, "cupti", &arguments).archived(context) {
            Ok(archive) => {
                wrong.extend(archive.faults.clone());
                let (launches, joined) = (archive.number("launches"), archive.number("kernels_joined"));
                wrong.unless(joined == launches, format!("{end}: {launches} launches, {joined} kernels"));
                facts[*end] = json!({ "launches": launches, "kernels_joined": joined });
            }
            Err(outcome) => wrong.unless(false, outcome.why),
        }
    }
    Ok(Outcome::from_problems(&wrong, facts))
}

pub(crate) fn nccl_graphs(context: &Context<'_>) -> Answer {
    let archive = recorded("graphs", context.shape()?, "cupti", "--ops graph --count 10000").archived(context)?;
    let mut wrong = archive.faults.clone();
    wrong.unless(archive.number("captured") > 0, "no launch was captured");
    // Which of two communicators of one process and GPU a replay belongs to cannot be known.
    let recognised = archive.number("kernels_of_graphs") + archive.number("kernels_of_graphs_unknown");
    wrong.unless(recognised > 0, "no kernel of a replay was recognised");
    Ok(Outcome::from_problems(&wrong, archive.facts()))
}

pub(crate) fn several_gpus(context: &Context<'_>) -> Answer {
    let gpus = context.machine.gpus;
    if gpus < 2 {
        return Err(Outcome::not_here("this machine has one GPU"));
    }
    let shape = Shape { threads: gpus, ..ALONE };
    let archive = recorded("gpus", &shape, "cupti", "--ops all").archived(context)?;
    let (mut wrong, devices) = (archive.faults.clone(), archive.number("devices"));
    wrong.unless(devices == gpus as u64, format!("{gpus} GPUs, {devices} in the archive"));
    Ok(Outcome::from_problems(&wrong, archive.facts()))
}
