//! The tree algorithm of all-reduce: sums go up while results come down.

use super::function_table::Func;
use super::part::{Part, math, shape, simple_step_bytes};
use crate::device_memory::Record;
use crate::prims::{Env, Peers, Prims, Step};
use crate::tasks::{JoinAll, Task};

const NOBODY: i32 = -1;

pub(super) async fn run(env: &Env<'_>, work: &Record, func: Func) {
    let layout = env.layout;
    let up: i32 = env.channel.field(layout.tree_up).read();
    let down: [i32; 3] = [0, 4, 8].map(|k| env.channel.field(layout.tree_down + k).read());
    let data = (work.addr(layout.coll_sendbuff), work.addr(layout.coll_recvbuff));
    let pieces: Vec<(i64, i64)> = Part::new(env, work, func).chunks().collect();
    let open = |recv: &[i32], send: &[i32]| {
        let peers = Peers { recv, send, connection: 0 };
        Prims::new(env, shape(func), math(env, work, func), &peers, data, simple_step_bytes(env))
    };
    if up == NOBODY {
        let mut prims = open(&down, &down);
        for (o, e) in pieces {
            prims.step(Step::own(o, e).reduced().stored(o).sent()).await;
        }
        prims.close();
        return;
    }
    let leaf = down[0] == NOBODY;
    let mut reduce = open(&down, &[up]);
    let mut spread = open(&[up], &down);
    let own_pieces = pieces.clone();
    let rising: Task<'_> = Box::pin(async move {
        for (o, e) in own_pieces {
            let own = Step::own(o, e).sent();
            reduce.step(if leaf { own } else { own.reduced() }).await;
        }
        reduce.close();
    });
    let falling: Task<'_> = Box::pin(async move {
        for (o, e) in pieces {
            let result = Step::arriving(e).stored(o);
            spread.step(if leaf { result } else { result.sent() }).await;
        }
        spread.close();
    });
    JoinAll(vec![rising, falling]).await;
}
