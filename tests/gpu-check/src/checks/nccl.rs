//! Real NCCL under the plugin.

use serde_json::json;

use super::job::{ALONE, Archive, Job, Listener, Shape};
use crate::outcome::Outcome;
use crate::plan::Context;

const NO_SHAPE: &str =
    "NCCL lets only one rank use this machine's GPU, and launches nothing for one";

/// A job whose archive is looked at.
fn recorded<'a>(shape: &'a Shape, operations: &'a str, way: &str) -> Job<'a> {
    Job::new(shape, operations)
        .listener(Listener::Archive)
        .variable("NCCL_OTF2_GPU", way)
}

fn outcome_of(result: Result<Outcome, Outcome>) -> Outcome {
    result.unwrap_or_else(|outcome| outcome)
}

fn unsound(archive: &Archive) -> Vec<String> {
    if archive.is_sound {
        Vec::new()
    } else {
        vec!["nccl-otf2 check finds faults in the archive".to_owned()]
    }
}

/// One rank: nothing is launched, and everything works.
pub(crate) fn one_rank(context: &Context<'_>) -> Outcome {
    if context.is_fake {
        return Outcome::not_here(
            "needs a GPU: the stand-in does not run communicators of one rank",
        );
    }
    outcome_of((|| {
        let archive = recorded(&ALONE, "allreduce,allgather", "off").archived(context, "one")?;
        Ok(Outcome::of(&unsound(&archive), archive.facts()))
    })())
}

/// Several ranks: all operations are right, whichever way NCCL lets them run.
pub(crate) fn several_ranks(context: &Context<'_>) -> Outcome {
    let Some(shape) = context.shape() else {
        return Outcome::not_here(NO_SHAPE);
    };
    outcome_of((|| {
        // The stand-in takes long for each operation.
        let operations = if context.is_fake {
            "allreduce,group"
        } else {
            "all"
        };
        let archive = recorded(shape, operations, "off")
            .argument("--count", 10_000)
            .archived(context, "several")?;
        let mut facts = archive.facts();
        facts.insert("shape".to_owned(), json!(shape.words));
        Ok(Outcome::of(&unsound(&archive), facts))
    })())
}

/// One kernel and one id for each launch.
pub(crate) fn nccl_kernels(context: &Context<'_>) -> Outcome {
    let Some(shape) = context.shape() else {
        return Outcome::not_here(NO_SHAPE);
    };
    outcome_of((|| {
        let archive = recorded(shape, "allreduce,allgather,sendrecv,group", "cupti")
            .argument("--rounds", 5)
            .argument("--count", 10_000)
            .archived(context, "kernels")?;
        let mut wrong = unsound(&archive);
        if archive.ways() != ["cupti"] {
            wrong.push(format!("recorded by {:?}, not by CUPTI", archive.ways()));
        }
        let (launches, joined) = (archive.number("launches"), archive.number("kernels_joined"));
        if launches == 0 || joined != launches - archive.number("captured") {
            wrong.push(format!(
                "{launches} launches, {joined} kernels joined to them"
            ));
        }
        for lost in [
            "unmatched",
            "dropped_by_cupti",
            "bad_records",
            "foreign_buffers",
        ] {
            if archive.number(lost) > 0 {
                wrong.push(format!("{lost}: {}", archive.number(lost)));
            }
        }
        let mut facts = archive.facts();
        facts.insert(
            "kernel_names".to_owned(),
            json!(kernel_names(context, "kernels")),
        );
        Ok(Outcome::of(&wrong, facts))
    })())
}

/// The GPU's own times of kernel channels, placed with the help of kernels.
pub(crate) fn kernel_channels(context: &Context<'_>) -> Outcome {
    let Some(shape) = context.shape() else {
        return Outcome::not_here(NO_SHAPE);
    };
    outcome_of((|| {
        let archive = recorded(shape, "allreduce", "cupti")
            .variable("NCCL_OTF2_EVENTS", "full")
            .argument("--rounds", 10)
            .argument("--count", 10_000)
            .archived(context, "channels")?;
        let mut wrong = unsound(&archive);
        let facts = archive.facts();
        let channels = facts["kinds"]["kernelch"]["seen"].as_u64();
        if channels.is_none_or(|channels| channels == 0) {
            wrong.push("NCCL told of no kernel channel".to_owned());
        }
        Ok(Outcome::of(&wrong, facts))
    })())
}

/// The regions of the archive that are NCCL's kernels.
fn kernel_names(context: &Context<'_>, name: &str) -> Vec<String> {
    let mut command = std::process::Command::new(context.bundle.tool());
    command
        .args(["print", "--json"])
        .arg(Job::archive(context, name));
    let out = context.work.join(format!("{name}.print"));
    let Ok(ran) = crate::process::run(&mut command, std::time::Duration::from_secs(30), &out)
    else {
        return Vec::new();
    };
    let mut names: Vec<String> = ran
        .stdout
        .lines()
        .filter(|line| line.contains("nccl") && line.contains("Kernel"))
        .filter_map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).ok()?;
            let region = record["region"].as_str()?;
            let is_kernel =
                region.contains("ncclDevKernel") || region.contains("ncclSymkDevKernel");
            is_kernel.then(|| region.to_owned())
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Times by CUDA events.
pub(crate) fn events_way(context: &Context<'_>) -> Outcome {
    let Some(shape) = context.shape() else {
        return Outcome::not_here(NO_SHAPE);
    };
    outcome_of((|| {
        let archive = recorded(shape, "allreduce,sendrecv,graph", "events")
            .argument("--rounds", 3)
            .argument("--count", 10_000)
            .archived(context, "events")?;
        let mut wrong = unsound(&archive);
        let launches = archive.number("launches");
        let timed = archive.number("launches_timed") + archive.number("captured");
        if archive.ways() != ["events"] || launches == 0 || timed != launches {
            wrong.push(format!(
                "{launches} launches, {timed} captured or timed, by {:?}",
                archive.ways()
            ));
        }
        Ok(Outcome::of(&wrong, archive.facts()))
    })())
}

/// All ways in which communicators end.
pub(crate) fn ends(context: &Context<'_>) -> Outcome {
    let Some(shape) = context.shape() else {
        return Outcome::not_here(NO_SHAPE);
    };
    // Each takes seconds on the stand-in.
    let ends: &[&str] = if context.is_fake {
        &["exit"]
    } else {
        &["finalize", "destroy", "abort", "order", "exit"]
    };
    let mut facts = crate::outcome::Facts::new();
    let mut wrong = Vec::new();
    for end in ends {
        let job = recorded(shape, "allreduce", "cupti")
            .argument("--end", end)
            .argument("--count", 10_000);
        match job.archived(context, end) {
            Ok(archive) => {
                wrong.extend(
                    unsound(&archive)
                        .into_iter()
                        .map(|why| format!("{end}: {why}")),
                );
                let (launches, joined) =
                    (archive.number("launches"), archive.number("kernels_joined"));
                if joined != launches {
                    wrong.push(format!("{end}: {launches} launches, {joined} kernels"));
                }
                facts.insert(
                    (*end).to_owned(),
                    json!({ "launches": launches, "kernels_joined": joined }),
                );
            }
            Err(outcome) => wrong.push(outcome.why().to_owned()),
        }
    }
    Outcome::of(&wrong, facts)
}

/// Kernels of replays.
pub(crate) fn nccl_graphs(context: &Context<'_>) -> Outcome {
    let Some(shape) = context.shape() else {
        return Outcome::not_here(NO_SHAPE);
    };
    outcome_of((|| {
        let archive = recorded(shape, "graph", "cupti")
            .argument("--count", 10_000)
            .archived(context, "graphs")?;
        let mut wrong = unsound(&archive);
        if archive.number("captured") == 0 {
            wrong.push("no launch was captured".to_owned());
        }
        if archive.number("kernels_of_graphs") == 0 {
            wrong.push("no kernel of a replay was recognised".to_owned());
        }
        Ok(Outcome::of(&wrong, archive.facts()))
    })())
}

/// Needs what one GPU has not.
pub(crate) fn copy_engine(context: &Context<'_>) -> Outcome {
    if context.machine.gpus < 2 {
        return Outcome::not_here(
            "copy-engine collectives need several GPUs that reach each other's memory",
        );
    }
    Outcome::not_here(
        "nccl-host registers no windows, without which NCCL does not use copy engines",
    )
}

/// All GPUs in one process.
pub(crate) fn several_gpus(context: &Context<'_>) -> Outcome {
    let gpus = context.machine.gpus;
    if gpus < 2 {
        return Outcome::not_here("this machine has one GPU");
    }
    let shape = Shape {
        threads: u16::try_from(gpus).unwrap_or(u16::MAX),
        ..ALONE
    };
    outcome_of((|| {
        let archive = recorded(&shape, "all", "cupti").archived(context, "gpus")?;
        let mut wrong = unsound(&archive);
        let devices = archive.number("devices");
        if devices != gpus as u64 {
            wrong.push(format!("{gpus} GPUs, {devices} in the archive"));
        }
        let mut facts = archive.facts();
        facts.insert(
            "mps".to_owned(),
            json!("not run: this program starts no MPS daemon"),
        );
        Ok(Outcome::of(&wrong, facts))
    })())
}
