//! A thread that touches the file of a claim.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// Touches a claim until it is dropped.
#[derive(Debug)]
pub(super) struct Refreshing {
    /// Takes the file and what is in it; closed at the end.
    file: Option<Sender<(File, Vec<u8>)>>,
    thread: Option<JoinHandle<()>>,
}

impl Refreshing {
    /// `None` where the system refuses a thread.
    pub(super) fn start(interval: Duration) -> Option<Self> {
        let (file, wanted) = mpsc::channel::<(File, Vec<u8>)>();
        let touch = move || {
            let Ok((file, text)) = wanted.recv() else {
                return;
            };
            while matches!(
                wanted.recv_timeout(interval),
                Err(RecvTimeoutError::Timeout)
            ) {
                // The same bytes: whoever reads meanwhile sees no change. To the server at once, whose clock
                // gives the time. By the handle: under the name there may be another's file by now.
                let _not_now = file.write_all_at(&text, 0).and_then(|()| file.sync_all());
            }
        };
        let thread = journal::host::without_signals(|| {
            let builder = std::thread::Builder::new().name("nccl-otf2-claim".to_owned());
            builder.stack_size(256 * 1024).spawn(touch).ok()
        });
        thread.map(|thread| Self {
            file: Some(file),
            thread: Some(thread),
        })
    }

    /// From now on.
    pub(super) fn begin(&mut self, file: File, text: Vec<u8>) {
        if let Some(channel) = &self.file {
            let _thread_is_there = channel.send((file, text));
        }
    }
}

impl Drop for Refreshing {
    fn drop(&mut self) {
        drop(self.file.take());
        if let Some(thread) = self.thread.take() {
            let _never_panics = thread.join();
        }
    }
}
