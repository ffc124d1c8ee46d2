//! What listening costs: the same small all-reduce again and again, with nobody listening and with somebody.

use std::time::Duration;

use serde_json::{Value, json};

use super::job::{Job, Listener};
use crate::context::Context;
use crate::outcome::{Answer, Outcome, Problems};

/// 64 bytes: nothing but latency.
const ELEMENTS: u32 = 16;
const MOST_ITERATIONS: u64 = 1_000_000;

/// Somebody who listens, with a value of the variable in question.
type Variant = (&'static str, Listener);

/// Callbacks: GPU work is left alone.
pub(crate) fn callback_cost(context: &Context<'_>) -> Answer {
    let recording = ["light", "standard", "full"].map(|events| (events, Listener::Recording));
    let variants = [&[("none", Listener::Nobody), ("empty", Listener::EmptyPlugin)][..], &recording].concat();
    compare(context, "NCCL_OTF2_EVENTS", &variants)
}

/// GPU work: the events recorded are the same.
pub(crate) fn cupti_cost(context: &Context<'_>) -> Answer {
    compare(context, "NCCL_OTF2_GPU", &["off", "events", "cupti"].map(|backend| (backend, Listener::Recording)))
}

fn compare(context: &Context<'_>, variable: &str, variants: &[Variant]) -> Answer {
    // Each is run so often, in turn with the others: other load on the machine then affects all of them.
    let (first, turns) = if context.is_fake { (64, 1) } else { (2048, 2) };
    let iterations = if context.is_fake {
        first
    } else {
        // As many as fit. Half of the time is for beginnings and ends: a communicator takes seconds.
        let each_ns = pace(context, variable, variants[0], first)?["each_ns"]["median"].as_u64().unwrap_or(1).max(1);
        let runs = variants.len() as u128 * turns;
        let fit = context.left().as_nanos() / (2 * runs) / u128::from(each_ns);
        u64::try_from(fit).unwrap_or(u64::MAX).clamp(64, MOST_ITERATIONS)
    };
    let mut facts = json!({ "shape": context.shape()?.words, "bytes": ELEMENTS * 4, "iterations": iterations });
    let mut seen: Vec<Vec<Value>> = vec![Vec::new(); variants.len()];
    for _ in 0..turns {
        for (variant, paces) in variants.iter().zip(&mut seen) {
            if context.left() < Duration::from_secs(4) {
                facts["cut_short"] = json!(true);
                break;
            }
            paces.push(pace(context, variable, *variant, iterations)?);
        }
    }
    for ((name, _), turns) in variants.iter().zip(&seen) {
        let least = |of: &str| turns.iter().filter_map(|pace| pace[of]["median"].as_u64()).min();
        facts[format!("{name}_call_ns")] = json!(least("call_ns"));
        facts[*name] = json!({ "call_ns": least("call_ns"), "each_ns": least("each_ns"), "turns": turns });
    }
    Ok(Outcome::from_problems(&Problems::default(), facts))
}

/// The pace of the rank whose calls took longest, by the log of `nccl-host`.
fn pace(context: &Context<'_>, variable: &str, (name, listener): Variant, iterations: u64) -> Result<Value, Outcome> {
    let failed = |why: &str| Outcome::failed(format!("{name}: {why}"));
    let log = context.work.join("log");
    let arguments = format!("--ops repeat --count {ELEMENTS} --iterations {iterations} --log {}", log.display());
    let variables = [(variable, name)];
    let variables = if listener == Listener::Recording { &variables[..] } else { &[] };
    let job = Job { name, shape: context.shape()?, listener, arguments: &arguments, variables };
    let ran = job.run(context, Duration::MAX)?;
    if !ran.succeeded() {
        return Err(failed(&ran.how_it_ended()));
    }
    // A million calls are hundreds of megabytes.
    let _ = std::fs::remove_dir_all(context.work.join(name));
    let text = std::fs::read_to_string(log.with_extension("0.jsonl")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter(|line| line["kind"] == "pace")
        .map(|line| json!({ "call_ns": line["call_ns"], "each_ns": line["each_ns"] }))
        .max_by_key(|pace| pace["call_ns"]["median"].as_u64())
        .ok_or_else(|| failed("the log of nccl-host has no pace"))
}
