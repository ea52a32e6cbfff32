/* The gate over Linux's seccomp user notification: the supervisor's end, and the first step of a
 * worker process, which sends the listener. */
#include "isolation/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "isolation/filter.h"

int tn_gate_create(tn_gate_t *gate) {
  int pair[2];
  *gate = (tn_gate_t){-1, -1, false, false};
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) != 0) return -1;
  gate->channel = pair[0];
  return pair[1];
}

/* A message with room for one descriptor. */
typedef union descriptor_message_t {
  char room[CMSG_SPACE(sizeof(int))];
  struct cmsghdr aligned;
} descriptor_message_t;

static bool send_descriptor(int channel, int descriptor) {
  char byte = 0;
  descriptor_message_t control = {{0}};
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control.room};
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof descriptor);
  memcpy(CMSG_DATA(head), &descriptor, sizeof descriptor);
  return sendmsg(channel, &message, MSG_NOSIGNAL) == 1;
}

static int receive_descriptor(int channel) {
  char byte;
  int descriptor = -1;
  descriptor_message_t control;
  struct iovec part = {&byte, 1};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control.room};
  if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0) return -1;
  const struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  if (head && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof descriptor))
    memcpy(&descriptor, CMSG_DATA(head), sizeof descriptor);
  return descriptor;
}

bool tn_gate_enter(int channel, const tn_control_t *control) {
  if (channel < 0) return true;
  const int listener = tn_filter_install_gate(control);
  const bool good = listener < 0 || send_descriptor(channel, listener);
  if (listener >= 0) close(listener);
  close(channel);
  return good;
}

int tn_gate_descriptor(const tn_gate_t *gate) {
  return gate->listener >= 0 ? gate->listener : gate->channel;
}

void tn_gate_close(tn_gate_t *gate) {
  if (gate->channel >= 0) close(gate->channel);
  if (gate->listener >= 0) close(gate->listener);
  gate->channel = gate->listener = -1;
}

static uint32_t count_threads(int32_t process) {
  char path[64], text[2048];
  snprintf(path, sizeof path, "/proc/%d/status", process);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t size = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  if (size <= 0) return 0;
  text[size] = 0;
  const char *at = strstr(text, "\nThreads:");
  return at ? (uint32_t)strtoul(at + strlen("\nThreads:"), NULL, 10) : 0;
}

bool tn_gate_serve(tn_gate_t *gate, int32_t process, const tn_control_t *control) {
  struct seccomp_notif call = {0};
  struct seccomp_notif_resp answer = {0};
  if (gate->listener < 0) {
    gate->listener = receive_descriptor(gate->channel);
    close(gate->channel);
    gate->channel = -1;
    return true;
  }
  struct pollfd polled = {gate->listener, POLLIN, 0};
  if (poll(&polled, 1, 0) < 1) return true;
  /* Without POLLIN, the process has ended. A call that has ended meanwhile gives ENOENT. */
  if (!(polled.revents & POLLIN)) {
    tn_gate_close(gate);
    return true;
  }
  if (ioctl(gate->listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) return true;
  answer.id = call.id;
  if (call.data.nr != SYS_clone && gate->is_loaded) {
    gate->is_ended = true;
    return false;
  }
  if (call.data.nr == SYS_clone && count_threads(process) >= tn_thread_most(control))
    answer.error = -EAGAIN;
  else
    answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  ioctl(gate->listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  return true;
}
