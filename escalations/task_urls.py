"""Addresses of the tasks of people."""

from django.urls import path

from escalations.views import tasks

urlpatterns = [
    path("", tasks.index, name="tasks"),
    path("<uuid:task_id>/", tasks.show, name="task"),
    path("<uuid:task_id>/answer/", tasks.answer, name="task-answer"),
]
