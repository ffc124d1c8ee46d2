//! The table of all runs, as Markdown.

use std::fmt::Write as _;

use super::cells::{self, Cell};
use super::judge::Numbers;

pub(super) struct Outcome {
    /// The counts, or why the cell cannot be run; `Err` says how it failed.
    pub(super) result: Result<Result<Numbers, &'static str>, String>,
    pub(super) seconds: f64,
}

pub(super) struct Table {
    pub(super) version: String,
    pub(super) release: String,
    pub(super) rows: Vec<(Cell, Outcome)>,
    /// Cells whose NCCL archives were compared with that of the same job without Score-P: the number of events.
    pub(super) same: Vec<(String, Result<usize, String>)>,
}

impl Outcome {
    pub(super) fn line(&self) -> String {
        match &self.result {
            Ok(Ok(numbers)) => {
                let ((calls, all_calls), (operations, all_operations)) = (numbers.calls, numbers.operations);
                format!(
                    "ok, {calls}/{all_calls} calls, {operations}/{all_operations} operations, {:.1} s",
                    self.seconds
                )
            }
            Ok(Err(why)) => format!("not to be had: {why}"),
            Err(why) => format!("FAIL: {why}"),
        }
    }
}

impl Table {
    pub(super) fn failed(&self) -> usize {
        let runs = self.rows.iter().filter(|(_, outcome)| outcome.result.is_err()).count();
        runs + self.same.iter().filter(|(_, result)| result.is_err()).count()
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "{}, NCCL {}, two processes. Calls and operations: shown, of all.\n\n\
             | program | MPI | threads | writes | with | calls | operations | flushes | not shown | result |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
            self.version, self.release
        );
        for (cell, outcome) in &self.rows {
            let numbers = outcome.result.as_ref().ok().and_then(|result| result.as_ref().ok());
            let of = |pair: fn(&Numbers) -> (u64, u64)| {
                numbers.map(pair).map_or_else(String::new, |(shown, all)| format!("{shown} / {all}"))
            };
            let flushes = numbers.map(|numbers| numbers.flushes).filter(|&flushes| flushes > 0);
            let result = match &outcome.result {
                Ok(Ok(_)) => "ok".to_owned(),
                Ok(Err(why)) => format!("—: {why}"),
                Err(why) => format!("FAIL: {}", why.lines().next().unwrap_or_default().replace('|', "\\|")),
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {result} |",
                cells::name(cell.link),
                if cell.has_mpi { "mpi" } else { "none" },
                cells::name(cell.threads),
                cell.writes_what(),
                cell.special.name(),
                of(|numbers| numbers.calls),
                of(|numbers| numbers.operations),
                flushes.map_or_else(String::new, |flushes| flushes.to_string()),
                numbers.map_or("", |numbers| &numbers.not_shown),
            );
        }
        let numbers = self.rows.iter().filter_map(|(_, outcome)| outcome.result.as_ref().ok()?.as_ref().ok());
        let waiting: Vec<_> = numbers.flat_map(|numbers| &numbers.waiting).collect();
        if !waiting.is_empty() {
            text.push_str(
                "\nThe waiting of all ranks for a late one, 10 ms in each of 20 rounds, in one analysis of both (`merge \
                 --for scalasca`):\n\n\
                 | in | median round, program | archive | all, archive | scout |\n| --- | --- | --- | --- | --- |\n",
            );
        }
        for row in waiting {
            let [program, archive, all, scout] = [row.program_ms, row.archive_ms, row.all_ms, row.scout_ms];
            let _ = writeln!(
                text,
                "| `{}` | {program:.2} ms | {archive:.2} ms | {all:.1} ms | {scout:.1} ms |",
                row.function
            );
        }
        if !self.same.is_empty() {
            text.push_str("\n| NCCL's archive, against that of the job without Score-P | events |\n| --- | --- |\n");
        }
        for (name, result) in &self.same {
            let words = match result {
                Ok(events) => format!("the same {events}, but for times"),
                Err(why) => format!("FAIL: {why}"),
            };
            let _ = writeln!(text, "| `{name}` | {words} |");
        }
        text
    }
}
