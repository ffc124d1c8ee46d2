//! A thread that touches a lock file.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Refreshing {
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Refreshing {
    /// `None` where the system refuses a thread: then processes of other hosts may take over after a minute.
    pub(super) fn start(file: File, text: String, interval: Duration) -> Option<Self> {
        let (running, ended) = mpsc::channel::<()>();
        let touch = move || {
            while matches!(ended.recv_timeout(interval), Err(RecvTimeoutError::Timeout)) {
                // The same bytes: whoever reads meanwhile sees no change. To the server at once, whose clock
                // gives the time. By the handle: under the name there may be another's file by now.
                let _not_now = file.write_all_at(text.as_bytes(), 0).and_then(|()| file.sync_all());
            }
        };
        let thread = journal::host::without_signals(|| {
            std::thread::Builder::new().name("nccl-otf2-lock".to_owned()).stack_size(256 * 1024).spawn(touch).ok()
        });
        thread.map(|thread| Self { running: Some(running), thread: Some(thread) })
    }
}

impl Drop for Refreshing {
    fn drop(&mut self) {
        drop(self.running.take());
        if let Some(thread) = self.thread.take() {
            let _never_panics = thread.join();
        }
    }
}
