//! The low-latency protocols: lines of data that carry the number of their step.

use super::{Prims, Proto, Step};
use crate::device_memory::Addr;
use crate::tasks::poll_until;

/// LL: 16 bytes, twice four of data and a 32-bit flag. LL128: 128 bytes, 120 of data and a 64-bit flag.
#[derive(Clone, Copy)]
struct Lines {
    proto: Proto,
    count: usize,
}

impl Lines {
    fn new(proto: Proto, bytes: usize) -> Lines {
        let count = match proto {
            Proto::Ll => bytes.div_ceil(8),
            // A warp writes 16 lines at a time.
            Proto::Ll128 | Proto::Simple => bytes.div_ceil(1920) * 16,
        };
        Lines { proto, count }
    }

    fn width(self) -> usize {
        if self.proto == Proto::Ll { 8 } else { 120 }
    }

    fn len(self) -> usize {
        if self.proto == Proto::Ll { 16 } else { 128 }
    }

    fn wire_bytes(self) -> usize {
        self.count * self.len()
    }

    fn ready(self, base: Addr, line: usize, flag: u64) -> bool {
        let at = base.field(line * self.len());
        if self.proto == Proto::Ll {
            let flagged = |word: u64| (word >> 32) as u32 == flag as u32;
            flagged(at.load()) && flagged(at.field(8).load())
        } else {
            at.field(120).load() == flag
        }
    }

    fn read(self, base: Addr) -> Vec<u8> {
        let mut data = vec![0; self.count * self.width()];
        for (line, part) in data.chunks_exact_mut(self.width()).enumerate() {
            let at = base.field(line * self.len());
            if self.proto == Proto::Ll {
                let (first, second) = part.split_at_mut(4);
                at.copy_out(first);
                at.field(8).copy_out(second);
            } else {
                at.copy_out(part);
            }
        }
        data
    }

    fn write(self, base: Addr, data: &[u8], flag: u64) {
        for line in 0..self.count {
            let from = (line * self.width()).min(data.len());
            let to = (from + self.width()).min(data.len());
            let mut part = [0; 120];
            part[..to - from].copy_from_slice(&data[from..to]);
            let at = base.field(line * self.len());
            if self.proto == Proto::Ll {
                for (half, data) in part[..8].chunks_exact(4).enumerate() {
                    let word = u32::from_le_bytes([data[0], data[1], data[2], data[3]]);
                    at.field(8 * half).store(u64::from(word) | u64::from(flag as u32) << 32);
                }
            } else {
                at.copy_in(&part);
                at.field(120).store(flag);
            }
        }
    }
}

impl Prims<'_> {
    pub(super) async fn step_lines(&mut self, step: Step) {
        let (env, layout, proto) = (self.env, self.env.layout, self.shape.proto);
        let bytes = step.n * self.math.ty.size();
        let lines = Lines::new(proto, bytes);
        if step.send {
            self.wait_to_send(1).await;
            for to in &self.sends {
                to.set_size(layout, lines.wire_bytes());
            }
        }
        let mut received = Vec::new();
        if step.recv {
            for from in &self.recvs {
                let (base, flag) = (from.data(layout, proto), from.step + 1);
                let mut arrived = 0;
                poll_until(|| {
                    while arrived < lines.count && lines.ready(base, arrived, flag) {
                        arrived += 1;
                    }
                    arrived == lines.count || env.aborted()
                })
                .await;
                let mut data = lines.read(base);
                data.truncate(bytes);
                received.push(data);
            }
        }
        if env.aborted() {
            return;
        }
        if step.n > 0 {
            let value = self.value(&step, 0, step.n, received);
            self.keep(step.dst, 0, &value);
            if step.send {
                for to in &self.sends {
                    lines.write(to.data(layout, proto), &value, to.step + 1);
                }
            }
        }
        if step.recv {
            self.recvs.iter_mut().for_each(|from| from.advance(1));
        }
        if step.send {
            for to in &mut self.sends {
                match proto {
                    Proto::Ll128 => to.advance_if_counted(),
                    Proto::Ll | Proto::Simple => to.advance_silently(),
                }
            }
        }
    }
}
