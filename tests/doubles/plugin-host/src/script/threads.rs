//! The threads of a script, and its children.

use std::sync::Arc;
use std::thread;

use anyhow::{Context as _, anyhow, ensure};

use super::command::{ChildEnd, Place};
use super::parse::Statement;
use super::run::{Running, Thread};
use super::system::{Side, exit_now, fork, wait};

impl Thread {
    fn start_thread(&self, statement: &Statement, name: &str, place: Place) -> anyhow::Result<Running> {
        let mut thread = Self::new(Arc::clone(&self.shared), place);
        let block = Arc::clone(&statement.block);
        let work = move || thread.block(&block);
        let started = thread::Builder::new().name(name.to_owned()).spawn(work);
        started.with_context(|| format!("line {}", statement.line))
    }

    pub(super) fn spawn(&self, statement: &Statement, name: String) -> anyhow::Result<()> {
        let running = self.start_thread(statement, &name, self.place)?;
        let before = self.shared.threads.lock().insert(name.clone(), running);
        ensure!(before.is_none(), "line {}: the thread {name:?} is still running (join)", statement.line);
        Ok(())
    }

    /// Waits for one thread, or for all.
    pub(super) fn join(&self, name: Option<&str>) -> anyhow::Result<()> {
        let mut threads = self.shared.threads.lock();
        let taken: Vec<Running> = match name {
            None => std::mem::take(&mut *threads).into_values().collect(),
            Some(name) => vec![threads.remove(name).with_context(|| format!("there is no thread {name:?}"))?],
        };
        drop(threads);
        taken.into_iter().try_for_each(finish)
    }

    pub(super) fn parallel(&self, statement: &Statement, threads: u64) -> anyhow::Result<()> {
        let mut running = Vec::new();
        for thread in 0..threads {
            let place = Place { thread, round: self.place.round };
            running.push(self.start_thread(statement, &format!("parallel {thread}"), place)?);
        }
        running.into_iter().try_for_each(finish)
    }

    /// The child runs the block and ends with `_exit`, as children of libraries do that forgot to exec.
    pub(super) fn fork(&mut self, statement: &Statement, expected: ChildEnd) -> anyhow::Result<()> {
        // Held over the fork, so that the child does not inherit them locked by another thread.
        let names = self.shared.names.lock();
        let problems = self.shared.problems.lock();
        let before = problems.len();
        let side = fork();
        drop(problems);
        drop(names);
        match side.with_context(|| format!("line {}", statement.line))? {
            Side::Child => {
                let result = self.block(&statement.block);
                let problems = self.shared.problems.lock();
                for problem in problems.iter().skip(before) {
                    eprintln!("in the forked child: {problem}");
                }
                if let Err(error) = &result {
                    eprintln!("in the forked child: {error:#}");
                }
                exit_now(if result.is_err() { 2 } else { i32::from(problems.len() > before) })
            }
            Side::Parent(child) => {
                let end = wait(child)?;
                if end != expected {
                    let what = format!("the forked child ended with {end:?}, expected {expected:?}");
                    self.problem(statement.line, &what);
                }
                Ok(())
            }
        }
    }
}

fn finish(running: Running) -> anyhow::Result<()> {
    running.join().unwrap_or_else(|_| Err(anyhow!("a thread of the script panicked")))
}
