// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A stand-in for the kernel module of Ach, for tests. It was written from measured facts about the module, not from its source.
//
// It survives what the real module does not: a descriptor that is closed after its channel was removed and another channel was
// created; and a creation after one that failed for its size. It counts these in /sys/module/achtest/parameters/faults instead.

#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/rtmutex.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#define MAX_CHANNELS 64
#define MAX_BYTES (64 << 20)

enum { WAIT = 1, NEWEST = 2, COPY = 4, RELATIVE = 8 };

struct ach_create {
	u64 frames, size;
	s32 clock;
	char name[65];
};
struct ach_name {
	char name[65];
};
struct ach_mode {
	s32 options;
	s64 sec, nsec;
};
struct ach_status {
	s32 options;
	s64 size;
	u64 count, unread, last_seq, last_read;
};
struct ach_options {
	struct ach_mode mode;
	s32 clock;
};

#define ACH_CREATE _IOW('Q', 1, struct ach_create)
#define ACH_UNLINK _IOW('Q', 2, struct ach_name)
#define ACH_SET_MODE _IOW('Q', 3, struct ach_mode)
#define ACH_GET_MODE _IOR('Q', 4, struct ach_mode)
#define ACH_STATUS _IOR('Q', 5, struct ach_status)
#define ACH_FLUSH _IOW('Q', 6, u32)
#define ACH_CANCEL _IOW('Q', 7, u32)
#define ACH_GET_OPTIONS _IOW('Q', 8, struct ach_options)

static_assert(ACH_CREATE == 0x40585101 && ACH_UNLINK == 0x40415102 && ACH_SET_MODE == 0x40185103);
static_assert(ACH_STATUS == 0x80305105 && ACH_GET_OPTIONS == 0x40205108);

static unsigned long faults, ioctls, descriptors;
module_param(faults, ulong, 0644);
MODULE_PARM_DESC(faults, "closes of a descriptor and creations that the real module does not survive");
module_param(ioctls, ulong, 0644);
MODULE_PARM_DESC(ioctls, "ioctls on channels, each of which writes a line to the log of the real module's kernel");
static bool broken;
module_param(broken, bool, 0644);
MODULE_PARM_DESC(broken, "a creation has failed for its size, so the next one is a fault");
module_param(descriptors, ulong, 0444);
MODULE_PARM_DESC(descriptors, "open descriptors of channels");

struct frame {
	u64 seq, size;
	void *data;
};

struct channel {
	struct rt_mutex lock; // guards the ring
	wait_queue_head_t readers;
	u64 frame_count, max_bytes, last_seq, total;
	struct frame *ring; // frame seq is in ring[seq % frame_count]
	s32 clock;
	char name[65];

	int minor, users; // guarded by table
	bool removed;
	unsigned long creates_at_removal;
};

struct reader {
	struct channel *channel;
	struct ach_mode mode;
	u64 seq; // of the last frame that was read
	bool cancelled;
};

static DEFINE_MUTEX(table); // guards channels and what follows
static struct channel *channels[MAX_CHANNELS];
static unsigned long creates;
static dev_t first_device;
static struct class *class;
static struct cdev devices;

static void free_channel(struct channel *c) {
	u64 i;
	for (i = 0; c->ring && i < c->frame_count; i++)
		kvfree(c->ring[i].data);
	kvfree(c->ring);
	kfree(c);
}

static void put_channel(struct channel *c) { // table is held
	if (--c->users == 0)
		free_channel(c);
}

// --- a channel ---------------------------------------------------------------

static int ach_open(struct inode *inode, struct file *file) {
	struct reader *r = kzalloc(sizeof(*r), GFP_KERNEL);
	struct channel *c;
	if (!r)
		return -ENOMEM;
	mutex_lock(&table);
	c = channels[iminor(inode)];
	if (c) {
		c->users++;
		descriptors++;
	}
	mutex_unlock(&table);
	if (!c) {
		kfree(r);
		return -ENOENT;
	}
	r->channel = c;
	r->mode.options = WAIT;
	file->private_data = r;
	return nonseekable_open(inode, file);
}

static int ach_release(struct inode *inode, struct file *file) {
	struct reader *r = file->private_data;
	mutex_lock(&table);
	descriptors--;
	if (r->channel->removed && creates != r->channel->creates_at_removal) {
		faults++;
		pr_info("achtest: a descriptor of %s was closed too late\n", r->channel->name);
	}
	put_channel(r->channel);
	mutex_unlock(&table);
	kfree(r);
	return 0;
}

static bool is_readable(struct reader *r) {
	return r->cancelled || READ_ONCE(r->channel->last_seq) != r->seq;
}

// await_frame waits as the mode of the descriptor says.
static int await_frame(struct reader *r) {
	struct channel *c = r->channel;
	ktime_t until = ktime_set(r->mode.sec, r->mode.nsec);
	if (!(r->mode.options & WAIT) || is_readable(r))
		return 0;
	if (until == 0)
		return wait_event_interruptible(c->readers, is_readable(r));
	if (!(r->mode.options & RELATIVE))
		until = ktime_sub(until, c->clock == CLOCK_REALTIME ? ktime_get_real() : ktime_get());
	return wait_event_interruptible_hrtimeout(c->readers, is_readable(r), until);
}

// next returns the frame that the descriptor reads next, or NULL. The lock is held.
static struct frame *next(struct reader *r) {
	struct channel *c = r->channel;
	u64 oldest = c->last_seq < c->frame_count ? 1 : c->last_seq - c->frame_count + 1;
	if (c->last_seq == 0 || (c->last_seq == r->seq && !(r->mode.options & COPY)))
		return NULL;
	if (r->mode.options & NEWEST || c->last_seq == r->seq)
		return &c->ring[c->last_seq % c->frame_count];
	return &c->ring[max(oldest, r->seq + 1) % c->frame_count];
}

static ssize_t ach_read(struct file *file, char __user *buf, size_t size, loff_t *at) {
	struct reader *r = file->private_data;
	struct channel *c = r->channel;
	struct frame *f;
	ssize_t n = await_frame(r);
	if (n)
		return n == -ETIME ? -ETIME : -EINTR;
	if (r->cancelled)
		return -ECANCELED;
	rt_mutex_lock(&c->lock);
	f = next(r);
	if (!f)
		n = -EAGAIN;
	else if (f->size > size)
		n = -EMSGSIZE;
	else if (copy_to_user(buf, f->data, f->size))
		n = -EFAULT;
	else {
		n = f->size;
		r->seq = f->seq;
	}
	rt_mutex_unlock(&c->lock);
	return n;
}

static ssize_t ach_write(struct file *file, const char __user *buf, size_t size, loff_t *at) {
	struct reader *r = file->private_data;
	struct channel *c = r->channel;
	struct frame *f;
	void *data;
	if (r->cancelled)
		return -ECANCELED;
	if (size == 0)
		return -EINVAL;
	if (size > c->max_bytes)
		return -EMSGSIZE;
	data = vmemdup_user(buf, size);
	if (IS_ERR(data))
		return PTR_ERR(data);
	rt_mutex_lock(&c->lock);
	f = &c->ring[(c->last_seq + 1) % c->frame_count];
	swap(f->data, data);
	f->size = size;
	f->seq = c->last_seq + 1;
	WRITE_ONCE(c->last_seq, f->seq);
	rt_mutex_unlock(&c->lock);
	kvfree(data);
	wake_up_interruptible(&c->readers);
	return size;
}

static __poll_t ach_poll(struct file *file, poll_table *wait) {
	struct reader *r = file->private_data;
	poll_wait(file, &r->channel->readers, wait);
	return EPOLLOUT | EPOLLWRNORM | (is_readable(r) ? EPOLLIN | EPOLLRDNORM : 0);
}

static long get_status(struct reader *r, void __user *to) {
	struct channel *c = r->channel;
	struct ach_status s = {.options = r->mode.options, .size = c->total};
	rt_mutex_lock(&c->lock);
	s.last_seq = c->last_seq;
	s.last_read = r->seq;
	s.count = min(c->last_seq, c->frame_count);
	s.unread = min(s.count, c->last_seq - r->seq);
	r->seq = c->last_seq; // as in the real module
	rt_mutex_unlock(&c->lock);
	return copy_to_user(to, &s, sizeof(s)) ? -EFAULT : 0;
}

static long ach_ioctl(struct file *file, unsigned int request, unsigned long arg) {
	struct reader *r = file->private_data;
	struct ach_options options = {};
	void __user *at = (void __user *)arg;
	mutex_lock(&table);
	ioctls++;
	mutex_unlock(&table);
	switch (request) {
	case ACH_SET_MODE:
		return copy_from_user(&r->mode, at, sizeof(r->mode)) ? -EFAULT : 0;
	case ACH_GET_MODE:
		return copy_to_user(at, &r->mode, sizeof(r->mode)) ? -EFAULT : 0;
	case ACH_STATUS:
		return get_status(r, at);
	case ACH_FLUSH:
		if (r->cancelled)
			return -ECANCELED;
		r->seq = READ_ONCE(r->channel->last_seq);
		return 0;
	case ACH_CANCEL:
		r->cancelled = true;
		wake_up_interruptible(&r->channel->readers);
		return 0;
	case ACH_GET_OPTIONS:
		options.mode = r->mode;
		options.clock = r->channel->clock;
		return copy_to_user(at, &options, sizeof(options)) ? -EFAULT : 0;
	}
	return -ENOSYS;
}

static const struct file_operations channel_operations = {
	.owner = THIS_MODULE,
	.open = ach_open,
	.release = ach_release,
	.read = ach_read,
	.write = ach_write,
	.poll = ach_poll,
	.unlocked_ioctl = ach_ioctl,
	.llseek = no_llseek,
};

// --- the control device ------------------------------------------------------

static struct channel *find(const char *name) { // table is held
	int i;
	for (i = 0; i < MAX_CHANNELS; i++)
		if (channels[i] && strcmp(channels[i]->name, name) == 0)
			return channels[i];
	return NULL;
}

static struct channel *make_channel(struct ach_create *a) {
	struct channel *c;
	if (a->frames == 0 || a->size == 0 || a->frames > MAX_BYTES || a->size > MAX_BYTES || a->frames * a->size > MAX_BYTES)
		return ERR_PTR(-ENOMEM);
	c = kzalloc(sizeof(*c), GFP_KERNEL);
	if (!c)
		return ERR_PTR(-ENOMEM);
	rt_mutex_init(&c->lock);
	init_waitqueue_head(&c->readers);
	c->users = 1;
	c->frame_count = a->frames;
	c->max_bytes = a->frames * a->size;
	c->total = 352 + 24 * a->frames + c->max_bytes;
	c->clock = a->clock;
	strscpy(c->name, a->name, sizeof(c->name));
	c->ring = kvcalloc(a->frames, sizeof(*c->ring), GFP_KERNEL);
	if (!c->ring) {
		kfree(c);
		return ERR_PTR(-ENOMEM);
	}
	return c;
}

static long create(struct ach_create *a) { // table is held
	struct channel *c;
	struct device *d;
	int minor = 0;
	if (find(a->name))
		return -EEXIST;
	if (broken) {
		faults++;
		pr_info("achtest: %s is created after a creation that failed\n", a->name);
	}
	broken = false;
	while (minor < MAX_CHANNELS && channels[minor])
		minor++;
	if (minor == MAX_CHANNELS)
		return -ENOSPC;
	c = make_channel(a);
	if (IS_ERR(c)) {
		broken = true;
		return PTR_ERR(c);
	}
	c->minor = minor;
	channels[minor] = c;
	creates++;
	d = device_create(class, NULL, first_device + minor, NULL, "ach-%s", a->name);
	if (IS_ERR(d)) {
		channels[minor] = NULL;
		put_channel(c);
		return PTR_ERR(d);
	}
	return 0;
}

static void remove(struct channel *c) { // table is held
	device_destroy(class, first_device + c->minor);
	channels[c->minor] = NULL;
	c->removed = true;
	c->creates_at_removal = creates;
	put_channel(c);
}

static long control_ioctl(struct file *file, unsigned int request, unsigned long arg) {
	struct ach_create a = {};
	struct ach_name n = {};
	struct channel *c;
	long result = -ENOSYS;
	if (request == ACH_CREATE && copy_from_user(&a, (void __user *)arg, sizeof(a)))
		return -EFAULT;
	if (request == ACH_UNLINK && copy_from_user(&n, (void __user *)arg, sizeof(n)))
		return -EFAULT;
	a.name[sizeof(a.name) - 1] = n.name[sizeof(n.name) - 1] = 0;
	mutex_lock(&table);
	if (request == ACH_CREATE) {
		result = create(&a);
	} else if (request == ACH_UNLINK) {
		c = find(n.name);
		result = c ? 0 : -ENOENT;
		if (c)
			remove(c);
	}
	mutex_unlock(&table);
	return result;
}

static const struct file_operations control_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = control_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice control = {.minor = MISC_DYNAMIC_MINOR, .name = "achctrl", .fops = &control_operations, .mode = 0600};

static char *node_of(struct device *d, umode_t *mode) {
	if (mode)
		*mode = 0660;
	return NULL;
}

static int __init begin(void) {
	int err = alloc_chrdev_region(&first_device, 0, MAX_CHANNELS, "achtest");
	if (err)
		return err;
	class = class_create(THIS_MODULE, "achtest");
	if (IS_ERR(class)) {
		err = PTR_ERR(class);
		goto region;
	}
	class->devnode = node_of;
	cdev_init(&devices, &channel_operations);
	err = cdev_add(&devices, first_device, MAX_CHANNELS);
	if (err)
		goto with_class;
	err = misc_register(&control);
	if (!err)
		return 0;
	cdev_del(&devices);
with_class:
	class_destroy(class);
region:
	unregister_chrdev_region(first_device, MAX_CHANNELS);
	return err;
}

static void __exit end(void) {
	int i;
	misc_deregister(&control);
	for (i = 0; i < MAX_CHANNELS; i++)
		if (channels[i])
			remove(channels[i]);
	cdev_del(&devices);
	class_destroy(class);
	unregister_chrdev_region(first_device, MAX_CHANNELS);
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("Channels of Ach, as a stand-in for tests");
