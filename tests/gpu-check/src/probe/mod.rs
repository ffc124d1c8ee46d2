//! One question to CUPTI and the driver, answered by a process of its own: what CUPTI once was told holds for its life,
//! and a crash is an answer too.

mod buffers;
mod driver;
mod gpu;
mod questions;
mod runtime;
mod timers;
mod tool;
mod two;

use std::io::Write as _;
use std::process::ExitCode;

use crate::options::ProbeRequest;
use crate::outcome::Outcome;
pub(crate) use two::ORDERS;

/// An answer, or what kept us from one.
type Answer = Result<Outcome, Outcome>;

/// Answers, as one line of JSON.
pub(crate) fn run(request: &ProbeRequest) -> ExitCode {
    let outcome = answer(request).unwrap_or_else(|outcome| outcome);
    let mut out = std::io::stdout().lock();
    let said = writeln!(out, "{}", outcome.to_json()).and_then(|()| out.flush());
    drop(out);
    if said.is_err() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn answer(request: &ProbeRequest) -> Answer {
    if let Some(order) = request.name.strip_prefix("tools:") {
        return two::in_order(request, order);
    }
    match request.name.as_str() {
        "device" => questions::device(request),
        "ids" => questions::ids(request),
        "layout" => questions::layout(request),
        "streams" => questions::streams(request),
        "graph" => questions::graph(request),
        "fork" => questions::fork(request),
        "small-buffers" => questions::small_buffers(request),
        "refuse" => questions::refuse(request),
        "storm" => timers::storm(request),
        "clock" => timers::clock(request),
        "gpu-clock" => timers::gpu_clock(request),
        "runtime-launch" => runtime::launch(request),
        other => Err(Outcome::failed(format!("--probe {other}: there is none"))),
    }
}
