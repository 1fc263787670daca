//! Realtime programs that lock others out, as the scheduler tells of them: `bpf/reserve.bpf.h`.

use std::{
    cell::RefCell,
    os::fd::{AsFd, BorrowedFd},
    rc::Rc,
};

use libbpf_rs::{MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder};

use crate::{Error, abi::raw};

/// A realtime thread that does not let go of a CPU for which others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hog {
    /// The thread.
    pub tid: u32,
    /// When it began, as in `/proc/TID/stat`: tells it from a later one of its number.
    pub began: u64,
}

/// What the scheduler says of a CPU for which others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lockout {
    /// This thread keeps it.
    By(Hog),
    /// Somebody keeps it while others stand back, and may yet go to sleep.
    GoesOn,
    /// This thread began while `of` stood back, and inherited that ([`Hogs::follow`]).
    Heir {
        /// The thread that stood back.
        of: u32,
        /// Its child, or a child's.
        heir: Hog,
    },
}

/// What is told of them; for the thread that is to listen.
#[derive(Debug)]
pub struct HogNews {
    pub(crate) ring: MapHandle,
    pub(crate) standing_back: MapHandle,
}

/// One who listens.
pub struct Hogs {
    map: MapHandle,
    standing_back: MapHandle,
    ring: RingBuffer<'static>,
    read: Rc<RefCell<Vec<Lockout>>>,
}

impl HogNews {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the ring cannot be opened.
    pub fn listen(self) -> Result<Hogs, Error> {
        let read: Rc<RefCell<Vec<Lockout>>> = Rc::default();
        let sink = Rc::clone(&read);
        let take = move |bytes: &[u8]| {
            let hog = raw::appease_hog::from_bytes(bytes);
            sink.borrow_mut().extend(hog.map(|hog| match (hog.tid, hog.heir_of) {
                (0, _) => Lockout::GoesOn,
                (tid, 0) => Lockout::By(Hog { tid, began: hog.began_ticks }),
                (tid, of) => Lockout::Heir { of, heir: Hog { tid, began: hog.began_ticks } },
            }));
            0
        };
        let failed = |e| Error::libbpf("open the ring of realtime programs", e);
        let mut builder = RingBufferBuilder::new();
        builder.add(&self.ring, take).map_err(failed)?;
        let ring = builder.build().map_err(failed)?;
        Ok(Hogs { map: self.ring, standing_back: self.standing_back, ring, read })
    }
}

impl Hogs {
    /// Becomes readable when there are any.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }

    /// Those since the last call.
    ///
    /// # Errors
    /// When the ring cannot be read.
    pub fn read(&self) -> Result<Vec<Lockout>, Error> {
        self.ring.consume().map_err(|e| Error::libbpf("read the ring of realtime programs", e))?;
        Ok(self.read.take())
    }

    /// From now on, a child of the thread `tid` that begins in the class behind all others is its heir; so are children of heirs.
    ///
    /// # Errors
    /// When the kernel has no room for it.
    pub fn follow(&self, tid: u32) -> Result<(), Error> {
        let key = tid.to_ne_bytes();
        let failed = |e| Error::libbpf("follow the children of a realtime program", e);
        self.standing_back.update(&key, &key, MapFlags::ANY).map_err(failed)
    }

    /// No longer so, also of an heir.
    pub fn unfollow(&self, tid: u32) {
        // One that is not there needs nothing.
        let _ = self.standing_back.delete(&tid.to_ne_bytes());
    }
}
