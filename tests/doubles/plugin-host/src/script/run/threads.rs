//! The threads of a script, and its children.

use std::sync::Arc;
use std::thread;

use super::{RunError, Running, Thread};
use crate::script::command::{ChildEnd, Place};
use crate::script::parse::Statement;
use crate::script::process::{Side, exit_now, fork, wait};

impl Thread {
    pub(super) fn start_thread(
        &self,
        statement: &Statement,
        name: &str,
        place: Place,
    ) -> Result<Running, RunError> {
        let mut thread = Self::new(Arc::clone(&self.shared), place);
        let block = Arc::clone(&statement.block);
        let work = move || {
            thread.block(&block)?;
            thread.settle();
            Ok(())
        };
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(work)
            .map_err(|source| RunError::System {
                line: statement.line,
                source,
            })
    }

    pub(super) fn spawn(
        &self,
        statement: &Statement,
        name: String,
        place: Place,
    ) -> Result<(), RunError> {
        let running = self.start_thread(statement, &name, place)?;
        match self.shared.threads.lock().insert(name.clone(), running) {
            None => Ok(()),
            Some(_) => Err(RunError::Script {
                line: statement.line,
                reason: format!("the thread {name:?} is still running (join)"),
            }),
        }
    }

    /// Waits for one thread, or for all.
    pub(super) fn join(&self, line: usize, name: Option<&str>) -> Result<(), RunError> {
        let mut threads = self.shared.threads.lock();
        let taken: Vec<Running> = match name {
            None => std::mem::take(&mut *threads).into_values().collect(),
            Some(name) => vec![threads.remove(name).ok_or_else(|| RunError::Script {
                line,
                reason: format!("there is no thread {name:?}"),
            })?],
        };
        drop(threads);
        taken
            .into_iter()
            .try_for_each(|running| finish(line, running))
    }

    pub(super) fn parallel(&self, statement: &Statement, threads: u64) -> Result<(), RunError> {
        let mut running = Vec::new();
        for number in 0..threads {
            let place = Place {
                thread: number,
                round: self.place.round,
            };
            running.push(self.start_thread(statement, &format!("parallel {number}"), place)?);
        }
        running
            .into_iter()
            .try_for_each(|running| finish(statement.line, running))
    }

    /// The child runs the block and ends with `_exit`, as children of libraries do that forgot to exec.
    pub(super) fn fork(
        &mut self,
        statement: &Statement,
        expected: ChildEnd,
    ) -> Result<(), RunError> {
        let line = statement.line;
        // Held over the fork, so that the child does not inherit them locked by another thread.
        let names = self.shared.names.lock();
        let problems = self.shared.problems.lock();
        let before = problems.len();
        let side = fork();
        drop(problems);
        drop(names);
        match side.map_err(|source| RunError::System { line, source })? {
            Side::Child => {
                let result = self.block(&statement.block);
                self.settle();
                let problems = self.shared.problems.lock();
                for problem in problems.iter().skip(before) {
                    eprintln!("in the forked child: {problem}");
                }
                if let Err(error) = &result {
                    eprintln!("in the forked child: {error}");
                }
                exit_now(if result.is_err() {
                    2
                } else {
                    i32::from(problems.len() > before)
                })
            }
            Side::Parent(child) => {
                let end = wait(child).map_err(|source| RunError::System { line, source })?;
                if end != expected {
                    self.problem(
                        line,
                        &format!("the forked child ended with {end:?}, expected {expected:?}"),
                    );
                }
                Ok(())
            }
        }
    }
}

fn finish(line: usize, running: Running) -> Result<(), RunError> {
    running.join().unwrap_or_else(|_| {
        Err(RunError::Script {
            line,
            reason: "a thread of the script panicked".into(),
        })
    })
}
