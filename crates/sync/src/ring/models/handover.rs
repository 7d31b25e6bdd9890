// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every interleaving of what happens to a queue when a task moves to another worker, and when a configuration takes another's place:
//! workers park, one thread gets all they own by channels, and hands it on. (That nobody waits for ever meanwhile is shown by
//! `reconfigure/src/model.rs`.)

use loom::sync::mpsc::{self, channel as messages};
use loom::thread;

use super::super::{Arc, Receiver, Ring, UnsafeCell, channel};
use super::bounded;

/// What a task owns: its end of a ring, and plain memory that nobody but its worker touches.
struct Drain {
    ring: Receiver<u32>,
    got: UnsafeCell<Vec<u32>>,
}

// SAFETY: its holder has it alone.
unsafe impl Send for Drain {}

impl Drain {
    fn run(&mut self) {
        let next = self.ring.pop();
        // SAFETY: by the exclusive borrow nobody else uses it; loom says so if somebody does.
        self.got.with_mut(|got| unsafe { (*got).extend(next) });
    }
}

/// The task that drains a queue moves while another worker goes on filling it. The ring's end is of the kind without any
/// compare-and-swap, so that only the hand-over makes the next worker see what the last one did.
#[test]
fn a_task_moves_while_its_queue_is_filled() {
    bounded(|| {
        let (mut sender, ring) = channel(2);
        let (park, parked) = messages::<Drain>();
        let (order, orders) = messages::<Drain>();
        let filling =
            thread::spawn(move || (0..3u32).filter(|item| sender.push(*item).is_ok()).collect::<Vec<_>>());
        let before = thread::spawn(move || {
            let mut task = Drain { ring, got: UnsafeCell::new(Vec::new()) };
            task.run();
            let _ = park.send(task);
        });
        let after = thread::spawn(move || {
            let mut task = orders.recv().unwrap();
            task.run();
            task
        });
        // The thread that moves tasks.
        order.send(parked.recv().unwrap()).unwrap();
        before.join().unwrap();
        let mut task = after.join().unwrap();
        let filled = filling.join().unwrap();
        (0..3).for_each(|_| task.run());
        // SAFETY: all threads have ended.
        let got = task.got.with(|got| unsafe { (*got).clone() });
        assert_eq!(got, filled, "lost, or out of order");
    });
}

/// A worker's part in a swap: it works with the old ring, parks with it, and works with the one that it gets.
fn worker<T: Send + 'static>(
    old: Arc<Ring<u32>>,
    mut work: impl FnMut(&Ring<u32>) -> T + Send + 'static,
    park: mpsc::Sender<()>,
    orders: mpsc::Receiver<Arc<Ring<u32>>>,
) -> thread::JoinHandle<[T; 2]> {
    thread::spawn(move || {
        let first = work(&old);
        park.send(()).unwrap();
        let new = orders.recv().unwrap();
        [first, work(&new)]
    })
}

/// A queue is exchanged between two that use it: what it holds goes to its successor before either goes on, so that nothing is
/// lost, and nothing that comes later overtakes it.
#[test]
fn a_queue_is_swapped_while_it_is_used() {
    bounded(|| {
        let [old, new] = [2, 4].map(|capacity| Arc::new(Ring::new(capacity)));
        let (park, parked) = messages();
        let ((give_filler, filler_gets), (give_drainer, drainer_gets)) = (messages(), messages());
        let mut next = 0;
        let fill = move |ring: &Ring<u32>| {
            next += 1;
            ring.push(next).is_ok()
        };
        let filler = worker(old.clone(), fill, park.clone(), filler_gets);
        let drainer = worker(old.clone(), |ring: &Ring<u32>| ring.pop(), park, drainer_gets);
        parked.recv().unwrap();
        parked.recv().unwrap();
        old.pop_many(2, |item| assert!(new.push(item).is_ok()));
        give_filler.send(new.clone()).unwrap();
        give_drainer.send(new.clone()).unwrap();
        assert_eq!(filler.join().unwrap(), [true, true]);
        let mut got: Vec<u32> = drainer.join().unwrap().into_iter().flatten().collect();
        got.extend(new.pop());
        got.extend(new.pop());
        assert_eq!(got, [1, 2], "lost, or out of order");
        assert!(old.is_empty());
    });
}
