//! All checks, in the order they are run: what everything else stands on first, what takes long last. What people read
//! is a table, what programs read JSON.

use std::cell::OnceCell;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::checks;
use crate::context::Context;
use crate::machine::{Bundle, Machine};
use crate::options::Options;
use crate::outcome::{Answer, Outcome, Verdict, with};

/// One question: its name, its number (0: none), its longest time in seconds, whether the
/// doubles can answer it, what answers it, and what is known then.
type Check = (&'static str, u8, u64, bool, fn(&Context<'_>) -> Answer, &'static str);

const DOUBLES: bool = true;
const GPU_ONLY: bool = false;

macro_rules! checks {
    ($($name:literal $number:literal, $limit_s:literal s, $on_doubles:expr, $run:expr, $settles:literal;)*) => {
        const CHECKS: &[Check] = &[$(($name, $number, $limit_s, $on_doubles, $run, $settles)),*];
    };
}

checks! {
    "device" 0, 30 s, GPU_ONLY, |c| checks::probe(c, "device"),
        "the driver answers; its version, the GPU's name and memory";
    "one-rank" 0, 60 s, GPU_ONLY, checks::one_rank,
        "a communicator of one rank: results, what NCCL tells the plugin, the archive";
    "several-ranks" 0, 90 s, DOUBLES, checks::several_ranks,
        "how NCCL lets several ranks use this machine's GPUs, and that all operations are right under the plugin";
    "function-ids" 1, 30 s, DOUBLES, checks::function_ids,
        "external ids come with the records of launches, in both families";
    "nccl-kernels" 2, 60 s, DOUBLES, checks::nccl_kernels,
        "each launch of NCCL's has one kernel record and one external id; names of its kernels";
    "kernel-channels" 7, 60 s, DOUBLES, checks::kernel_channels,
        "how NCCL's stamps of the GPU's timer fit between the starts and ends of kernels by CUPTI";
    "two-tools" 9, 60 s, DOUBLES, checks::two_tools,
        "what a second user of CUPTI gets, in each order of the two families";
    "torch-profiler" 9, 150 s, GPU_ONLY, checks::torch_profiler,
        "whether PyTorch's profiler sees its kernels beside each backend of the plugin, begun before it and after";
    "nsys" 9, 60 s, GPU_ONLY, checks::nsys,
        "which variables Nsight Systems sets, by which the plugin knows of it";
    "events-backend" 0, 60 s, DOUBLES, checks::events_backend,
        "launches timed by CUDA events: all of them, and nothing refused";
    "ends" 11, 120 s, DOUBLES, checks::ends,
        "communicators destroyed, aborted, in mixed order or not at all, with CUPTI on: each ends and has its archive";
    "nccl-graphs" 12, 60 s, DOUBLES, checks::nccl_graphs,
        "kernels of NCCL's in replays are recognised";
    "fork" 14, 30 s, DOUBLES, |c| checks::probe(c, "fork"),
        "a child that is forked while CUPTI records: it ends, and the parent's records go on";
    "refused-buffer" 15, 30 s, DOUBLES, checks::refused_buffer,
        "whether CUPTI survives a refused buffer (it is refused from CUDA 12.9 on only)";
    "several-gpus" 17, 60 s, GPU_ONLY, checks::several_gpus,
        "several GPUs in one process";
    "cupti-cost" 10, 100 s, DOUBLES, checks::cupti_cost,
        "a small all-reduce with GPU work untimed, by events, by CUPTI";
    "callback-cost" 10, 160 s, DOUBLES, checks::callback_cost,
        "a small all-reduce without a plugin, with an empty one, with ours: light, standard, full";
}

fn numbered(number: u8) -> String {
    if number == 0 { String::new() } else { number.to_string() }
}

pub(crate) fn list() -> String {
    let line = |(name, number, .., settles): &Check| format!("{:>2} {name:<18} {settles}\n", numbered(*number));
    CHECKS.iter().map(line).collect()
}

pub(crate) fn run(options: &Options) -> Result<bool, String> {
    let began = Instant::now();
    let bundle = Bundle::here()?;
    let work = tempfile::tempdir().map_err(|error| format!("cannot create a folder: {error}"))?;
    let wanted = wanted(&options.only)?;
    let machine = Machine::look(options, &bundle);
    if machine.gpus == 0 && !options.fake_gpu {
        return Err("this machine shows no GPU (/dev/nvidia0); --fake-gpu tries the checks themselves".to_owned());
    }
    let about = about(options, &machine, &bundle);
    println!("{about:#}\n");
    let shape = OnceCell::new();
    let (mut rows, mut verdicts) = (Vec::new(), Vec::new());
    for check in wanted {
        let (name, number, limit_s, ..) = *check;
        let started = Instant::now();
        let ends = began + Duration::from_secs(options.limit);
        let context = Context {
            machine: &machine,
            bundle: &bundle,
            is_fake: options.fake_gpu,
            work: work.path().join(name),
            until: ends.min(started + Duration::from_secs(limit_s)),
            shape: &shape,
        };
        let outcome = one(check, &context);
        let seconds = started.elapsed().as_secs_f64();
        // The facts are in the JSON: here as many as have room.
        let facts = || outcome.facts.to_string().chars().take(110).collect();
        let told: String = if outcome.why.is_empty() { facts() } else { outcome.why.clone() };
        let verdict = json!(outcome.verdict);
        let verdict = verdict.as_str().unwrap_or_default();
        println!("{:>2} {name:<18} {verdict:<8} {seconds:>6.1} s  {told}", numbered(number));
        verdicts.push(outcome.verdict);
        let number = (number != 0).then_some(number);
        let row = json!({ "name": name, "number": number, "seconds": (seconds * 10.0).round() / 10.0 });
        rows.push(with(row, json!(outcome)));
        // After each: what is known is there even where the machine goes away.
        let text = format!("{:#}\n", json!({ "format": 1, "about": about, "checks": rows }));
        std::fs::write(&options.json, text)
            .map_err(|error| format!("cannot write {}: {error}", options.json.display()))?;
    }
    let count = |verdict| verdicts.iter().filter(|own| **own == verdict).count();
    println!(
        "\n{} ok, {} failed, {} not possible here, {:.0} s; facts in {}",
        count(Verdict::Ok),
        count(Verdict::Failed),
        count(Verdict::NotHere),
        began.elapsed().as_secs_f64(),
        options.json.display()
    );
    Ok(count(Verdict::Failed) == 0)
}

/// Machine and folder: the file BUNDLE has lines of `name: value`.
fn about(options: &Options, machine: &Machine, bundle: &Bundle) -> Value {
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let about = json!({ "fake_gpu": options.fake_gpu, "began_unix_s": began.as_secs() });
    let text = std::fs::read_to_string(bundle.file("BUNDLE")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    let described = lines.map(|(name, value)| (format!("bundle_{name}"), json!(value)));
    with(with(machine.facts(), about), Value::Object(described.collect()))
}

fn one((_, _, _, on_doubles, check, _): &Check, context: &Context<'_>) -> Outcome {
    if context.is_fake && !on_doubles {
        return Outcome::not_here("needs a GPU");
    }
    if context.left() < Duration::from_secs(2) {
        return Outcome::not_here("no time was left (--limit)");
    }
    if let Err(error) = std::fs::create_dir_all(&context.work) {
        return Outcome::failed(format!("cannot create {}: {error}", context.work.display()));
    }
    let outcome = check(context).unwrap_or_else(|outcome| outcome);
    // Recordings of a million calls are large.
    let _ = std::fs::remove_dir_all(&context.work);
    outcome
}

fn wanted(only: &[String]) -> Result<Vec<&'static Check>, String> {
    let is = |(name, number, ..): &Check, word: &str| *name == word || numbered(*number) == word;
    for word in only {
        if !CHECKS.iter().any(|check| is(check, word)) {
            return Err(format!("--only {word}: there is no such check (--list)"));
        }
    }
    let is_wanted = |check: &&Check| only.is_empty() || only.iter().any(|word| is(check, word));
    Ok(CHECKS.iter().filter(is_wanted).collect())
}
