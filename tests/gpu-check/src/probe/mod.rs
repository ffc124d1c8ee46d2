//! One question to CUPTI and the driver, answered by a process of its own: CUPTI's settings last as long as it does,
//! and a crash is an answer too.

mod buffers;
mod driver;
mod gpu;
mod questions;
mod tool;

use std::io::Write as _;
use std::process::ExitCode;

use crate::options::Options;
use crate::outcome::{Answer, Outcome};
pub(crate) use questions::ORDERS;

pub(crate) fn run(name: &str, options: &Options) -> ExitCode {
    let outcome = answer(name, options).unwrap_or_else(|outcome| outcome);
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{}", serde_json::json!(outcome)).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer(name: &str, options: &Options) -> Answer {
    match name.split_once(':').unwrap_or((name, "")) {
        ("device", _) => questions::device(options),
        ("ids", family) => questions::ids(options, family),
        ("tools", order) => questions::two_tools(options, order),
        ("fork", _) => questions::fork(options),
        ("refuse", _) => questions::refuse(options),
        _ => Err(Outcome::failed(format!("--probe {name}: there is none"))),
    }
}
