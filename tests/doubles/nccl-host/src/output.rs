//! What the workers print: passed on as it comes, and bounded. NCCL can warn without end about a rank that has gone.

use anyhow::Context as _;
use std::collections::VecDeque;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// What is passed on at once, and what is kept of the rest until the end.
const HEAD: usize = 512 << 10;
const TAIL: usize = 64 << 10;

/// How long somebody who outlives a worker may hold its output open.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) struct Output {
    out: Stream,
    err: Stream,
}

struct Stream {
    writer: PipeWriter,
    done: Receiver<()>,
}

impl Output {
    pub(crate) fn new() -> anyhow::Result<Output> {
        Ok(Output { out: Stream::to(std::io::stdout)?, err: Stream::to(std::io::stderr)? })
    }

    pub(crate) fn attach_to(&self, command: &mut Command) -> anyhow::Result<()> {
        command.stdout(self.out.writer.try_clone()?);
        command.stderr(self.err.writer.try_clone()?);
        Ok(())
    }

    pub(crate) fn end(self) {
        for Stream { writer, done } in [self.out, self.err] {
            drop(writer);
            // Either way the program ends now.
            let _disconnected = done.recv_timeout(PATIENCE);
        }
    }
}

impl Stream {
    fn to<W: Write>(target: impl FnOnce() -> W + Send + 'static) -> anyhow::Result<Stream> {
        let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
        let (sender, done) = channel();
        let work = move || {
            let _sender = sender;
            // An error means that nobody reads the output any more.
            let _ = pass_on(reader, target());
        };
        let builder = std::thread::Builder::new().name("output".to_owned());
        builder.spawn(work).context("cannot start a thread")?;
        Ok(Stream { writer, done })
    }
}

fn pass_on(mut from: PipeReader, mut to: impl Write) -> std::io::Result<()> {
    let mut chunk = [0; 16 << 10];
    let mut head = HEAD;
    let mut tail = VecDeque::new();
    let mut cut = 0;
    loop {
        let bytes = match from.read(&mut chunk)? {
            0 => break,
            length => chunk.get(..length).unwrap_or_default(),
        };
        let (at_once, later) = bytes.split_at(head.min(bytes.len()));
        head -= at_once.len();
        to.write_all(at_once)?;
        to.flush()?;
        tail.extend(later);
        let excess = tail.len().saturating_sub(TAIL);
        tail.drain(..excess);
        cut += excess;
    }
    if cut > 0 {
        writeln!(to, "\n[nccl-host: {cut} bytes left out]")?;
    }
    let (first, second) = tail.as_slices();
    to.write_all(first)?;
    to.write_all(second)?;
    to.flush()
}
