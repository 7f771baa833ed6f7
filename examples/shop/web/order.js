// Shows how far an order is while the page is open.
(() => {
  const status = document.getElementById('status');
  const events = new EventSource(status.dataset.events);
  events.addEventListener('status', (event) => {
    const order = JSON.parse(event.data);
    status.textContent = order.status;
    if (order.status !== 'accepted') events.close();
  });
})();
